"""The differential test: random sequences of requests get the same answers from the embedded API
and a real server.

`python -m tests.contract.differential` runs thousands; a share of them is here. The seeds are
printed, and a failing sequence is shown in its shortest form.
"""

import pytest

from tests.contract.differential import campaign, exceptions, generate
from tests.controlplane.plane import ControlPlane

PARTS = 8
SEQUENCES = 5
"""For each part; `make test` runs the first one."""


@pytest.mark.real
@pytest.mark.e2e
@pytest.mark.xdist_group("differential")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))]
)
async def test_random_sequences_get_the_same_answers(
    control_plane: ControlPlane, part: int
) -> None:
    cluster = control_plane.cluster("differential")
    real = campaign.connected(cluster.url, cluster.token, cluster.ca_file.read_bytes())
    seeds = range(part * SEQUENCES, (part + 1) * SEQUENCES)
    try:
        await campaign.install(real)
        report = await campaign.run(real, seeds, label=f"p{part}x")
    finally:
        await real.close()
    print(campaign.table(report.covered))
    told = "\n".join(f"seed {seed}:\n{text}" for seed, text in report.failures)
    assert not report.failures, f"of the seeds {seeds.start}-{seeds.stop - 1}:\n{told}"


def test_a_sequence_has_at_least_twenty_requests_and_is_drawn_alike_again() -> None:
    for seed in range(20):
        steps = generate.sequence(seed)
        assert len(steps) >= 20
        assert [step.number for step in steps] == list(range(len(steps)))
        assert steps == generate.sequence(seed)


def test_every_kind_meets_every_verb_it_has() -> None:
    covered = {(step.kind, step.verb) for seed in range(1500) for step in generate.sequence(seed)}
    missing = [
        (kind.plural, verb)
        for kind in generate.KINDS
        for verb in generate.VERBS
        if generate.has(kind, verb) and (kind.plural, verb) not in covered
    ]
    assert missing == []


def test_there_are_few_exceptions_and_each_says_why() -> None:
    assert sum(not row.older for row in exceptions.ROWS) <= exceptions.AT_MOST
    assert all(len(row.reason) > 40 for row in exceptions.ROWS)
    assert len({row.name for row in exceptions.ROWS}) == len(exceptions.ROWS)

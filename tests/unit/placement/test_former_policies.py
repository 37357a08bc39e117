"""Policies without conditions, preferences and stated topology decide as before these existed.

The digest is over whole decisions on random fleets: shares, verdicts with their sentences and terms,
and hashes of inputs. It was taken before the fields existed. A change that intends to change
decisions takes it anew, and says so.
"""

import hashlib
from dataclasses import replace
from random import Random
from typing import Any, Final

from federator.api.placement import placementdecision
from federator.hub.records import decisions
from federator.model.decision import Decision
from federator.model.fleet import ClusterView, Commitment, FleetSnapshot
from federator.model.kubernetes import selectors
from federator.model.kubernetes.taints import Taint, Toleration
from federator.model.policy import Division, Group, Policy, SpreadRule, Strategy, Weight
from federator.placement import engine
from federator.placement.room.commitments import Commitments
from tests.unit.placement.fleets import cluster, fleet, held, jobs, service

NAMES: Final = "abcdefgh"
FORMER: Final = "1be1c90f443b43d342d348ff177f3873747bf0a0f3e363a26438122837e9d18c"


def _fleet(rng: Random) -> FleetSnapshot:
    return fleet(*(_cluster(rng, name) for name in NAMES[: rng.randint(1, 8)]))


def _cluster(rng: Random, name: str) -> ClusterView:
    effect = rng.choice(("", "", "", "", "NoSchedule", "PreferNoSchedule", "NoExecute"))
    labels = {"zone": rng.choice(("z1", "z2", "z3", "")), "disk": rng.choice(("ssd", "hdd"))}
    return cluster(
        name,
        rng.randint(0, 9),
        nodes=rng.randint(1, 3),
        labels={key: value for key, value in labels.items() if value},
        taints=(Taint("t", "", effect),) if effect else (),
        cordoned=rng.random() < 0.1,
    )


def _policy(rng: Random) -> Policy:
    def some() -> tuple[str, ...]:
        return tuple(rng.sample(NAMES, rng.randint(1, 5)))

    division = Division(
        rng.choice(tuple(Strategy)),
        rng.choice((0, 0, 0, 2)),
        rng.choice((None, None, 4)),
        rng.random() < 0.1,
        tuple(Weight(rng.randint(1, 5), some()) for _ in range(rng.randint(0, 2))),
        tuple(Group(f"g{at}", some()) for at in range(rng.choice((0, 0, 2)))),
        rng.choice((None, None, 1, 2)),
    )
    spread = tuple(
        SpreadRule(key, rng.randint(1, 3), rng.randint(0, 3), rng.random() < 0.5)
        for key in rng.choice(((), (), ("zone",), ("zone", "disk")))
    )
    ssd = selectors.from_dict({"matchLabels": {"disk": "ssd"}})
    return Policy(
        names=some() if rng.random() < 0.2 else (),
        exclude=some() if rng.random() < 0.1 else (),
        selector=ssd if rng.random() < 0.2 else None,
        tolerations=(Toleration("t", "Exists"),) if rng.random() < 0.3 else (),
        spread=spread,
        division=division,
        require_all=rng.random() < 0.1,
    )


def test_policies_without_the_new_fields_decide_as_before() -> None:
    digest = hashlib.sha256()
    for seed in range(300):
        rng = Random(seed)
        snapshot, policy, copies = _fleet(rng), _policy(rng), rng.randint(0, 40)
        more: dict[str, Any] = {"policy": policy}
        ask = service(copies, **more) if rng.random() < 0.7 else jobs(copies, copies // 2, **more)
        before = held(**{name: rng.randint(1, 4) for name in rng.sample(NAMES, 2)})
        mine = before if rng.random() < 0.4 and ask.unit == "replicas" else ()
        made = engine.decide(ask, mine, snapshot, Commitments().open(snapshot), seq=7)
        recorded = placementdecision.to_spec(made, (), ask)
        verdicts = [(each.cluster, each.message, each.terms) for each in made.verdicts]
        digest.update(repr((recorded, verdicts, made.inputs_hash)).encode())
    assert digest.hexdigest() == FORMER


def test_the_tie_break_of_this_release_moves_no_copy() -> None:
    """Ties were broken by the uid alone before."""
    moved = chosen_otherwise = 0
    for seed in range(600):
        rng = Random(seed)
        snapshot, policy, copies = _fleet(rng), _policy(rng), rng.randint(0, 40)
        more: dict[str, Any] = {"policy": policy}
        before = service(copies, **more) if seed % 3 else jobs(copies, copies // 2, **more)
        now = replace(before, ties_by_name=True)
        first = engine.decide(before, (), snapshot, Commitments().open(snapshot), seq=7)
        commitments = Commitments()
        commitments.record(Commitment.of(before, first.shares))
        for ask in (before, now):
            ledger = commitments.open(snapshot)
            again = engine.decide(
                ask, decisions.holdings(first.shares, None), snapshot, ledger, seq=7
            )
            moved += _counts(again) != _counts(first)
        new = engine.decide(now, (), snapshot, Commitments().open(snapshot), seq=7)
        chosen_otherwise += _counts(new) != _counts(first)
    assert chosen_otherwise > 5
    assert not moved


def _counts(made: Decision) -> dict[str, tuple[int, int]]:
    return {share.cluster: (share.count, share.slots) for share in made.shares}

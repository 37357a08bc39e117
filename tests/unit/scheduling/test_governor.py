"""Which clusters are held to be lost, what the fleet's brake does, and when one workload may leave or go home."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.kubernetes.taints import UNREACHABLE_TAINT, Toleration
from federator.model.policy import Failback, Failover, FailoverWhen, Policy
from federator.scheduling import governor
from federator.scheduling.governor import (
    Brake,
    Evidence,
    FleetHealth,
    Health,
    Move,
    Probed,
    Watched,
)

GRACE_S = 40.0
ANSWERS = Evidence(probed=Probed.ANSWERS, machines=4)
SILENT = Evidence(probed=Probed.SILENT, silent_s=60.0)
BLIP = Evidence(probed=Probed.SILENT, silent_s=10.0)


@pytest.mark.parametrize(
    ("evidence", "held"),
    [
        (ANSWERS, Health.LIVE),
        (Evidence(probed=Probed.ANSWERS), Health.LIVE),  # it has not reported yet
        (Evidence(probed=Probed.ANSWERS, machines=0), Health.DEGRADED),
        (Evidence(probed=Probed.ANSWERS, process_speaks=False), Health.UNKNOWN),
        (
            Evidence(probed=Probed.ANSWERS, declared_dead=True, machines=1),
            Health.LIVE,
        ),  # a word never outlives an answer
        (BLIP, Health.SUSPECT),
        (Evidence(probed=Probed.SILENT, silent_s=40.0), Health.UNREACHABLE),
        (
            Evidence(probed=Probed.SILENT, silent_s=900.0, news_s=5.0),
            Health.SUSPECT,
        ),  # a watch still tells news
        (Evidence(probed=Probed.SILENT, silent_s=900.0, news_s=91.0), Health.UNREACHABLE),
        (Evidence(probed=Probed.SILENT, silent_s=900.0, process_speaks=False), Health.UNREACHABLE),
        (Evidence(probed=Probed.SILENT, silent_s=60.0, declared_dead=True), Health.DEAD),
        (Evidence(probed=Probed.SILENT, silent_s=10.0, declared_dead=True), Health.SUSPECT),
        (
            Evidence(probed=Probed.SILENT, silent_s=900.0, heard_elsewhere=True),
            Health.SUSPECT,
        ),  # a standby hub hears it: our own network
        (
            Evidence(probed=Probed.SILENT, silent_s=60.0, declared_dead=True, heard_elsewhere=True),
            Health.DEAD,
        ),
        (Evidence(probed=Probed.REFUSES, silent_s=900.0, heard_elsewhere=True), Health.UNKNOWN),
        (Evidence(probed=Probed.REFUSES, silent_s=900.0), Health.UNKNOWN),
        (Evidence(probed=Probed.NOT_ASKED, silent_s=900.0), Health.UNKNOWN),
    ],
)
def test_what_evidence_amounts_to(evidence: Evidence, held: Health) -> None:
    assert governor.health(evidence, GRACE_S) is held


L, S, U, D, X, N = (
    Health.LIVE,
    Health.SUSPECT,
    Health.UNREACHABLE,
    Health.DEAD,
    Health.DEGRADED,
    Health.UNKNOWN,
)


@pytest.mark.parametrize(
    ("held", "brake", "of_300"),
    [
        ([], Brake.NORMAL, 300),
        ([L, L], Brake.NORMAL, 300),
        ([U, L], Brake.NORMAL, 300),
        ([U, U, L], Brake.NORMAL, 300),  # two are never a partial disruption
        ([U, U, U, L, L], Brake.PARTIAL, 0),  # 60 %, a small fleet
        ([U, U, U, L, L, L], Brake.NORMAL, 300),  # 50 %
        ([U] * 11 + [L] * 9, Brake.NORMAL, 300),  # exactly 55 %
        ([U] * 6 + [L] * 4, Brake.PARTIAL, 0),  # ten are a small fleet
        ([U] * 7 + [L] * 4, Brake.PARTIAL, 30),  # eleven are slowed
        ([U, N, S, L, L], Brake.PARTIAL, 0),  # unknown and suspect ones are not well either
        ([U, X], Brake.NORMAL, 300),  # one without machines answers
        ([U], Brake.FULL, 0),
        ([U, S], Brake.FULL, 0),
        ([U, N, N], Brake.FULL, 0),
        ([U] * 200, Brake.FULL, 0),
        ([D, L], Brake.NORMAL, 300),
        ([D, D, D, U, L], Brake.NORMAL, 300),  # whom a person declared dead counts on neither side
        ([D, U], Brake.FULL, 0),
    ],
)
def test_the_brake_of_a_fleet(held: Sequence[Health], brake: Brake, of_300: int) -> None:
    watched = {f"c{number}": Watched(one, 0.0) for number, one in enumerate(held)}
    fleet = FleetHealth(watched, governor.brake(watched.values()))
    assert (fleet.brake, fleet.a_minute(300)) == (brake, of_300)
    assert bool(fleet.why()) is (brake is not Brake.NORMAL)


def test_a_slowed_fleet_moves_at_least_one_a_minute() -> None:
    watched = {f"c{number}": Watched(U if number < 8 else L, 0.0) for number in range(12)}
    assert FleetHealth(watched, governor.brake(watched.values())).a_minute(3) == 1


def _steps(*looks: tuple[float, dict[str, Evidence]], short_at: float = -1.0) -> FleetHealth:
    fleet = FleetHealth()
    for at_s, evidence in looks:
        fleet = governor.step(fleet, evidence, now_s=at_s, grace_s=GRACE_S, short=at_s == short_at)
    return fleet


def test_a_state_lasts_from_its_first_look_on() -> None:
    fleet = _steps(
        (0.0, {"a": ANSWERS}),
        (10.0, {"a": SILENT, "b": ANSWERS}),
        (20.0, {"a": SILENT, "b": ANSWERS}),
    )
    assert fleet.of("a") == Watched(U, 10.0)
    assert fleet.of("b") == Watched(L, 10.0)


def test_a_blip_ends_steadiness_and_one_answer_ends_being_unreachable() -> None:
    fleet = _steps(
        (0.0, {"a": ANSWERS}),
        (100.0, {"a": BLIP}),
        (110.0, {"a": ANSWERS}),
        (500.0, {"a": ANSWERS}),
    )
    assert fleet.of("a") == Watched(L, 110.0)
    fleet = _steps((0.0, {"a": SILENT}), (200.0, {"a": ANSWERS}), (240.0, {"a": SILENT}))
    assert fleet.of("a") == Watched(U, 240.0)


def test_when_the_first_of_all_is_heard_again_the_clocks_of_the_others_start_anew() -> None:
    gone = {"a": SILENT, "b": SILENT}
    fleet = _steps((0.0, gone), (5000.0, gone))
    assert (fleet.brake, fleet.of("a")) == (Brake.FULL, Watched(U, 0.0))
    fleet = _steps((0.0, gone), (5000.0, gone), (5001.0, {"a": SILENT, "b": ANSWERS}))
    assert (fleet.brake, fleet.of("a")) == (Brake.NORMAL, Watched(U, 5001.0))


def test_a_blip_of_the_last_one_that_answers_resets_nothing_but_moves_nothing_meanwhile() -> None:
    before = {"a": SILENT, "b": ANSWERS}
    fleet = _steps((0.0, before), (250.0, {"a": SILENT, "b": BLIP}))
    assert fleet.a_minute(300) == 0
    fleet = _steps((0.0, before), (250.0, {"a": SILENT, "b": BLIP}), (260.0, before))
    assert (fleet.brake, fleet.of("a")) == (Brake.NORMAL, Watched(U, 0.0))


def test_a_shortage_of_the_hubs_own_moves_nothing_and_starts_the_clocks_anew() -> None:
    looks = [(at_s, {"a": SILENT, "b": ANSWERS}) for at_s in (0.0, 200.0, 300.0)]
    fleet = _steps(*looks[:2], short_at=200.0)
    assert (fleet.brake, fleet.a_minute(300)) == (Brake.OWN, 0)
    fleet = _steps(*looks, short_at=200.0)
    assert (fleet.brake, fleet.of("a")) == (Brake.NORMAL, Watched(U, 200.0))


def test_who_has_left_the_fleet_is_forgotten() -> None:
    assert _steps((0.0, {"a": SILENT, "b": ANSWERS}), (10.0, {"b": ANSWERS})).of("a") is None


def _tolerates(seconds: int = -1) -> Toleration:
    return Toleration(UNREACHABLE_TAINT.key, "Exists", "", "NoExecute", seconds)


@pytest.mark.parametrize(
    ("policy", "stays_s"),
    [
        (Policy(), 300.0),
        (Policy(failover=Failover(after_s=0)), 0.0),
        (Policy(tolerations=(_tolerates(60),)), 60.0),
        (
            Policy(tolerations=(_tolerates(60), _tolerates(20), _tolerates())),
            20.0,
        ),  # contradicting ones: the shortest
        (Policy(tolerations=(_tolerates(),)), None),
        (Policy(tolerations=(Toleration("", "Exists"),)), None),
        (Policy(tolerations=(Toleration("gpu", "Exists"),)), 300.0),
        (Policy(failover=Failover(when=FailoverWhen.DEAD), tolerations=(_tolerates(0),)), None),
        (Policy(failover=Failover(when=FailoverWhen.NEVER)), None),
    ],
)
def test_how_long_a_policy_lets_copies_stay(policy: Policy, stays_s: float | None) -> None:
    assert policy.stays_unreachable_s == stays_s


LOST = Watched(U, 1000.0)


@pytest.mark.parametrize(
    ("policy", "last", "now_s", "why"),
    [
        (Policy(), None, 1299.0, "it fails over when that has lasted for 300 s"),
        (Policy(), None, 1300.0, ""),
        (
            Policy(),
            Move(at_s=1299.0, silences=frozenset({"a 1"})),
            1300.0,
            "",
        ),  # the rest of the same move
        (
            Policy(),
            Move(at_s=900.0, silences=frozenset({"b 1"})),
            1300.0,
            "it was moved within the last 600 s",
        ),
        (
            Policy(),
            Move(at_s=900.0, silences=frozenset({"a 0"})),
            1499.0,
            "(failover.cooldownSeconds)",
        ),  # an earlier silence
        (Policy(), Move(at_s=900.0, silences=frozenset({"b 1"})), 1500.0, ""),
        (Policy(failover=Failover(when=FailoverWhen.DEAD)), None, 9999.0, "(failover.when)"),
    ],
)
def test_why_a_workload_stays_on_a_cluster_that_is_unreachable(
    policy: Policy, last: Move | None, now_s: float, why: str
) -> None:
    held = governor.holds(policy, LOST, "a 1", last, now_s)
    assert why in held
    assert bool(held) is bool(why)


@pytest.mark.parametrize(
    ("failover", "home", "last", "now_s", "may"),
    [
        (Failover(), Watched(L, 0.0), None, 1799.0, False),
        (Failover(), Watched(L, 0.0), None, 1800.0, True),
        (Failover(), Watched(U, 0.0), None, 9999.0, False),
        (Failover(), Watched(X, 0.0), None, 9999.0, False),
        (Failover(), None, None, 9999.0, False),
        (Failover(), Watched(L, 0.0), Move(at_s=1500.0, silences=frozenset({"a"})), 2099.0, False),
        (Failover(), Watched(L, 0.0), Move(at_s=1500.0, silences=frozenset({"a"})), 2100.0, True),
        (Failover(failback=Failback.MANUAL), Watched(L, 0.0), None, 9999.0, False),
        (Failover(failback=Failback.NEVER), Watched(L, 0.0), None, 9999.0, False),
    ],
)
def test_when_copies_may_go_home(
    failover: Failover, home: Watched | None, last: Move | None, now_s: float, may: bool
) -> None:
    assert governor.may_return(failover, home, last, now_s) is may


_evidence = st.sampled_from(
    [ANSWERS, SILENT, BLIP, Evidence(probed=Probed.NOT_ASKED), Evidence(probed=Probed.REFUSES)]
)


@given(
    st.lists(st.lists(_evidence, min_size=3, max_size=12), min_size=1, max_size=30), st.booleans()
)
def test_nothing_moves_without_a_cluster_that_is_well_and_no_clock_is_older_than_its_silence(
    looks: list[list[Evidence]], short: bool
) -> None:
    fleet, since = FleetHealth(), dict[str, float]()
    for number, look in enumerate(looks):
        now_s = 10.0 * number
        evidence = {f"c{place}": one for place, one in enumerate(look)}
        before, fleet = (
            fleet,
            governor.step(fleet, evidence, now_s=now_s, grace_s=GRACE_S, short=short),
        )
        well = sum(one.health in (L, X) for one in fleet.clusters.values())
        if not well or short:
            assert fleet.a_minute(300) == 0
        for name, one in evidence.items():
            if one is not SILENT:
                since.pop(name, None)
                continue
            since.setdefault(name, now_s)
            watched = fleet.of(name)
            assert watched is not None
            assert watched.since_s >= since[name]
        gone_before = all(one.health in (U, N) for one in before.clusters.values())
        if (
            before.clusters
            and gone_before
            and any(one.health is U for one in before.clusters.values())
            and well
        ):
            assert all(one.since_s == now_s for one in fleet.clusters.values() if one.health is U)

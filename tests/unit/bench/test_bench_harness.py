"""The arithmetic of `make bench`: gates, ratios, scaling by the machine's speed, counting of writes. Times nothing."""

import json

import pytest

from federator.kube.wire.transport import Request
from tests.bench import calibrate, fleets, harness
from tests.bench.harness import Against, Result, Row

RATIO = Row("X", "g", "a thing", Against.FLOOR, 1.6, "s")
MOST = Row("Y", "g", "a thing", Against.MOST, 0, "writes")
RATE = Row("Z", "g", "a thing", Against.LEAST, 1000, "1/s")


@pytest.mark.parametrize(
    ("row", "result", "speed", "ok"),
    [
        (RATIO, Result("X", 1.6, 1.0), 1.0, True),
        (RATIO, Result("X", 1.7, 1.0), 9.0, False),  # a ratio is not scaled
        (RATIO, Result("X", 1.0, 0.0), 1.0, False),
        (RATIO, Result("X", 1.0, None), 1.0, False),
        (MOST, Result("Y", 0), 0.1, True),
        (MOST, Result("Y", 1), 9.0, False),
        (RATE, Result("Z", 600), 0.5, True),
        (RATE, Result("Z", 600), 1.0, False),
        (MOST, Result("Y", 0, failed="it broke"), 1.0, False),
    ],
)
def test_a_row_is_good_when_its_gate_says_so(row: Row, result: Result, speed: float, ok: bool) -> None:
    assert harness.judge(row, result, speed).ok is ok


def test_the_written_object_has_what_readers_look_for_and_is_json() -> None:
    judged = harness.judge(RATIO, Result("X", 3.0, 2.0, {"why": "because"}), 1.0)

    found = json.loads(json.dumps(judged.as_dict()))

    assert {key: found[key] for key in ("id", "ours", "floor", "ratio", "gate", "unit", "ok")} == {
        "id": "X",
        "ours": 3.0,
        "floor": 2.0,
        "ratio": 1.5,
        "gate": 1.6,
        "unit": "s",
        "ok": True,
    }


def test_a_row_that_broke_has_no_figure_and_says_why() -> None:
    judged = harness.judge(RATIO, Result("X", failed="no server"), 1.0)

    assert judged.as_dict()["ours"] is None
    assert "no server" in harness.table([judged])


def test_rows_are_chosen_by_id_in_the_order_of_the_table() -> None:
    assert [row.id for row in harness.chosen("S1, S4")] == ["S4", "S1"]
    assert harness.chosen("") == harness.ROWS
    with pytest.raises(ValueError, match="S99"):
        harness.chosen("S99")


def test_ids_are_unique() -> None:
    assert len({row.id for row in harness.ROWS}) == len(harness.ROWS)


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert harness.percentile(range(1, 101), 99) == 99
    assert harness.percentile([5.0], 99) == 5.0
    with pytest.raises(ValueError, match="nothing"):
        harness.percentile([], 50)


def test_the_calibration_work_is_always_the_same() -> None:
    assert calibrate.one_round() == calibrate.one_round()


def test_writes_are_counted_by_resource_and_by_workload_and_leases_not_at_all() -> None:
    ledger = fleets.Ledger()
    base = "/apis/apps/v1/namespaces/feed/deployments"
    decisions = "/apis/federation.pinterest.com/v1alpha1/namespaces/feed/placementdecisions"
    decision = {"metadata": {"name": "deploy-web-1"}, "spec": {"workload": {"name": "web"}}}
    ledger.note("hub", "host", Request("POST", decisions, body=json.dumps(decision).encode()))
    ledger.note("hub", "a", Request("POST", base, body=json.dumps({"metadata": {"name": "web"}}).encode()))
    ledger.note("hub", "host", Request("PATCH", f"{base}/web/status"))
    ledger.note("hub", "host", Request("PATCH", f"{decisions}/deploy-web-1"))
    ledger.note("hub", "host", Request("GET", f"{base}/web"))
    ledger.note("hub", "host", Request("PUT", "/apis/coordination.k8s.io/v1/namespaces/feed/leases/l"))
    ledger.note("hub", "host", Request("POST", "/apis/events.k8s.io/v1/namespaces/feed/events"))

    assert ledger.of["hub", "web"] == 4
    assert ledger.total("hub") == 4
    assert ledger.total("hub", events=True) == 5
    assert ledger.by_resource("hub")["PATCH deployments/status"] == 1

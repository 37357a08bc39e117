"""Every write to an existing object carries its resourceVersion, or says here why not."""

import ast

import pytest

from tests.house import sources, writers

PERSON = "a person's command sets one field that only people write; the last word holds"
UID = "the uid names this very object, and whatever state it is in, it is to go"
OWNED = "server-side apply owns these fields: it writes what is to be, whatever was there"
OPTIMISTIC = "`kube.control.optimistic` sends the version of the object that was read"
STAND_IN = "a stand-in for programs of others, in sandboxes only"

UNVERSIONED = {
    "federator/advice/patches.py::between Patch": [1, "a value for the simulator, no request"],
    "federator/advice/patches.py::creating Patch": [1, "a value for the command line, no request"],
    "federator/cli/clusters/cluster.py::_cordon.work patch": [1, PERSON],
    "federator/cli/clusters/cluster.py::trust.work patch": [1, PERSON],
    "federator/cli/clusters/cluster.py::take_over.work patch": [1, PERSON],
    "federator/cli/clusters/draining.py::_say_lost.work patch": [1, PERSON],
    "federator/cli/clusters/draining.py::_ask patch": [1, PERSON],
    "federator/cli/clusters/draining.py::_take_back patch": [1, PERSON],
    "federator/cli/clusters/granting.py::grant patch": [1, OWNED],
    "federator/cli/clusters/granting.py::revoke delete": [1, UID],
    "federator/cli/clusters/joining.py::hub_account patch": [1, OWNED],
    "federator/cli/clusters/joining.py::join patch": [1, OWNED],
    "federator/cli/clusters/joining.py::renew patch": [
        1,
        "a person who renews credentials by hand replaces whatever stands there",
    ],
    "federator/cli/clusters/joining.py::forget patch": [1, PERSON],
    "federator/cli/clusters/probing.py::_ask patch": [1, PERSON],
    "federator/cli/clusters/removal.py::ask patch": [2, PERSON],
    "federator/cli/clusters/removal.py::drain patch": [1, PERSON],
    "federator/cli/clusters/removal.py::cancel patch": [1, PERSON],
    "federator/cli/clusters/removal.py::ask delete": [1, UID],
    "federator/cli/clusters/removal.py::drop_credentials delete": [1, UID],
    "federator/cli/clusters/standard.py::conform patch": [1, OWNED],
    "federator/cli/clusters/standard.py::_apply patch": [1, "a dry run"],
    "federator/cli/files/crd.py::install.work patch": [1, OWNED],
    "federator/cli/planning/rebalance.py::ask patch": [1, PERSON],
    "federator/cli/rollouts/rollout.py::restart.work patch": [1, PERSON],
    "federator/cli/rollouts/rollout.py::_write_back patch": [1, OPTIMISTIC],
    "federator/dashboard/routes/actions.py::_done patch": [1, OPTIMISTIC],
    "federator/cli/leader/applying.py::_request replace": [
        1,
        "`edits.written` sends the version of the object that was read",
    ],
    "federator/gateway/platforms/federation.py::Federation.write replace": [
        1,
        "`submitting` puts the new spec into the object as it was read, with its version",
    ],
    "federator/gateway/port.py::Port._cancel delete": [1, UID],
    "federator/hub/deletion/cascades.py::Cascades._recurring delete": [1, UID],
    "federator/hub/deletion/departed.py::Departed.turn Delete": [1, UID],
    "federator/hub/deletion/finalizer.py::Finalizing._end delete": [1, UID],
    "federator/hub/deletion/finalizer.py::Finalizing._say patch": [
        1,
        "replaces `spec.deletion` only, which nobody else writes once the object is deleted",
    ],
    "federator/hub/deletion/force_forget.py::Forgetting._remove Delete": [1, UID],
    "federator/hub/deletion/orphans.py::Orphans.turn Delete": [1, UID],
    "federator/hub/deletion/release.py::ending_step Delete": [1, UID],
    "federator/hub/deletion/release.py::ending_step Patch": [
        1,
        "removes the marks of this very object, whatever state it is in",
    ],
    "federator/hub/dispatch/slice_writer.py::SliceWriter._delete Delete": [
        1,
        "copies and ordinals leave nothing behind that the hub has to record first",
    ],
    "federator/hub/jobs/handing.py::Handing._end Delete": [1, UID],
    "federator/hub/host/collector.py::Collector.runs patch": [1, OWNED],
    "federator/hub/host/collector.py::Collector._remove delete": [1, UID],
    "federator/hub/host/in_force.py::SpecsInForce.adopt Delete": [1, "a revision never changes"],
    "federator/hub/host/in_force.py::SpecsInForce.drop Delete": [1, "a revision never changes"],
    "federator/hub/host/revisions.py::Revisions._keep Delete": [1, "a revision never changes"],
    "federator/hub/host/revisions.py::Revisions._prune Delete": [1, "a revision never changes"],
    "federator/hub/probing/probing.py::Probing._carry_out Patch": [
        1,
        "the next revision of a service that only the hub writes, whatever its status is by now",
    ],
    "federator/hub/probing/probing.py::Probing._delete Delete": [1, UID],
    "federator/hub/security/foreign.py::Foreign.turn delete": [
        1,
        "follows a patch by version, and the uid names the same object",
    ],
    "federator/hub/jobs/recurring.py::Recurring._delete Delete": [1, UID],
    "federator/hub/status/asking.py::Asking.ask patch": [
        1,
        "asks for shapes, which only the host that has claimed the cluster does; the claim has a"
        " version",
    ],
    "federator/hub/leading/standby.py::Standby._tell replace": [
        1,
        "`sights.body` sends the Lease it read",
    ],
    "federator/kube/control/applier.py::Applier._send patch": [
        2,
        "sends the versions of steps, whose makers are judged",
    ],
    "federator/kube/control/event_recorder.py::EventRecorder._count patch": [
        1,
        "one process counts in its own Event",
    ],
    "federator/kube/leader/elector.py::Elector._put replace": [
        1,
        "`lease` sends the Lease it read",
    ],
    "federator/kube/leader/elector.py::Elector._write_renewal replace": [
        1,
        "`lease` sends the Lease it read",
    ],
    "federator/kube/leader/elector.py::Elector._release replace": [
        1,
        "`lease` sends the Lease it read",
    ],
    "federator/member/capacity/reporting.py::CapacityReporter._write Patch": [
        1,
        "one process writes this status, and writes it whole after it is started again",
    ],
    "federator/member/expansion/comparing.py::plan Patch": [
        1,
        "stops a Job, whatever its counts are by now",
    ],
    "federator/member/expansion/comparing.py::_made Apply": [
        2,
        "creates: without force an object of others that came meanwhile wins",
    ],
    "federator/member/expansion/comparing.py::_partial_step Patch": [
        1,
        "sets fields of a Job that only this process writes",
    ],
    "federator/member/expansion/leftovers.py::Leftovers._turn Delete": [1, UID],
    "federator/member/heartbeat.py::Heartbeat._write patch": [
        2,
        "an empty patch reads; after a refusal the life sign counts more than who wrote meanwhile",
    ],
    "federator/member/rolling.py::RollUp._annotation_patch Patch": [
        1,
        "sets one annotation, which only this process writes",
    ],
    "federator/runtime/traffic/zookeeper.py::ZooKeeperRegistry._joined delete": [
        1,
        "an entry of ZooKeeper, removed by the version that was read",
    ],
    "federator/sandbox/gateways.py::Gateways._take patch": [1, STAND_IN],
    "federator/sandbox/operators.py::Operators._make patch": [1, STAND_IN],
    "federator/sandbox/operators.py::Operators._train_job patch": [1, STAND_IN],
    "federator/sandbox/operators.py::Operators._tell patch": [1, STAND_IN],
    "federator/sandbox/operators.py::Operators._delete delete": [1, STAND_IN],
}
"""Writer -> (how many of its calls send no version, why). Everything else sends one."""


def test_every_write_sends_a_version_or_has_a_reason() -> None:
    without: dict[str, int] = {}
    for writer in writers.all_writers():
        if not writer.evidence:
            without[writer.key] = without.get(writer.key, 0) + 1

    assert without == {key: count for key, (count, _) in UNVERSIONED.items()}


def test_a_version_comes_from_one_place_so_that_its_loss_is_seen() -> None:
    """With two places the check above would pass when one of them is lost."""
    twice = [writer for writer in writers.all_writers() if writer.evidence > 1]

    assert not twice


OF_STORES = {
    "federator/gateway/artifacts/registry.py",
    "federator/gateway/artifacts/repository.py",
}
"""`federator workflow push` and `attest` write into artifact stores, which hold no objects."""

OF_THE_GATEWAY = {
    "federator/gateway/api/routes.py",
    "federator/cli/gateway/submissions.py",
}
"""The gateway's own API: what it answers to, and the command that asks it."""


def test_only_the_client_names_methods_that_change_objects() -> None:
    """So that no request gets past the writers that are judged here."""
    assert writers.methods_named() == {
        "federator/kube/client.py",
        *OF_STORES,
        *OF_THE_GATEWAY,
        "federator/sandbox/repository.py",  # the demo's store of workflows: files, no objects
    }


def test_requests_of_any_method_only_read() -> None:
    """`raw` takes a method; the questions to the leader and to issuers are POSTs that change no
    object."""
    other = [
        f"{source.name}:{node.lineno}"
        for source in sources.all_sources()
        if not source.name.startswith(writers.APART)
        for node in source.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "raw"
        and not (isinstance(node.args[0], ast.Constant) and node.args[0].value == "GET")
    ]

    assert [place.partition(":")[0] for place in other] == [
        "federator/cli/leader/asking.py",
        "federator/dashboard/sources/leader.py",
        "federator/gateway/platforms/leader.py",
        "federator/process/oidc/issuer.py",
    ]


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("host.patch(ref, {'metadata': {'resourceVersion': v}})", 1),
        ("host.patch(ref, {'metadata': {'uid': v}})", 0),
        ("host.patch(ref, {'metadata': {'resourceVersion': ''}})", 0),
        ("meta = {'resourceVersion': v}; host.patch(ref, {'metadata': meta})", 1),
        ("meta = {}; meta['resourceVersion'] = v; host.patch(ref, {'metadata': meta})", 1),
        ("other = {'resourceVersion': v}; host.patch(ref, {'metadata': {}})", 0),
        ("host.patch(ref, [{'path': '/metadata/resourceVersion', 'value': v}], kind='json')", 1),
        ("host.delete(ref, uid=u)", 0),
        ("host.delete(ref, uid=u, resource_version=v)", 1),
        ("Patch(ref, body, uid=u, resource_version=v)", 1),
        ("Apply(ref, body, resource_version='')", 0),
        ("host.replace(ref, {**before, 'spec': spec})", 1),
        ("host.replace(ref, {**before, 'metadata': {}})", 0),
        ("host.replace(ref, {'spec': spec})", 0),
    ],
)
def test_the_check_sees_a_version_and_its_absence(code: str, count: int) -> None:
    found = writers.writers_of("m.py", ast.parse(f"def f():\n    {code}"))

    assert [writer.evidence for writer in found] == [count]

"""What the life of each of the six kinds is, stage by stage; `lives` tells it.

Pods fall ill by annotations of the stand-in kubelets. What has begun of a job set or a training job
keeps its template, so a person who wants the new one at once deletes its Jobs in the members, which
make them again; so does this.

    federator demo                                                              # in one shell
    python -m tests.e2e.lives_of_kinds federator-demo.kubeconfig                # in another
"""

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from federator.api import raw
from federator.kinds.cronjob.schema import RUN_LABEL
from federator.kinds.jobset.schema import SELECTOR_LABEL as OF_JOB_SET
from federator.kinds.training.schema import SELECTOR_LABEL as OF_TRAINING
from tests.controlplane import build
from tests.e2e import workloads
from tests.e2e.federations import Fleet, Shell
from tests.e2e.lives import (
    SPACE,
    Act,
    Judge,
    Life,
    Obj,
    Step,
    View,
    Without,
    carried,
    condition,
    containers_of,
    every,
    figures,
    gone,
    ill,
    is_ready,
    live,
    notes,
    nothing_is_left,
    numbered,
    ordinals_of,
    pods,
    refused,
    shards_of,
    total,
)

IN = ("-n", SPACE)
UNPULLED = ("ErrImagePull", "ImagePullBackOff")
LASTS = {"run_seconds": "3600"}
ENDS = {"run_seconds": "0.2"}
FAILS = {"run_seconds": "0.2", "exit_code": "3"}
EACH_MINUTE = "* * * * *"
NEVER = "0 0 31 2 *"
LEAP_DAYS = "0 0 29 2 *"


def kinds(fleet: Fleet) -> list[Life]:
    tainted = {
        obj["metadata"]["name"]
        for obj in fleet.host.items("mc")
        if raw.objects(obj, "spec", "taints")
    }
    nodes = {
        name: len(shell.items("nodes"))
        for name, shell in fleet.members.items()
        if name not in tainted
    }
    return [
        service("web"),
        job_set("crunch"),
        cron_job("tick", owned_are_collected=fleet.kind != "real"),
        daemon("agent", nodes),
        training_job("ranker"),
        stateful_set("kv"),
    ]


def service(name: str) -> Life:
    kind = "PinterestService"
    sick = condition(kind, name, "Ready", "False", "ImagePullFailed")

    def well(copies: int, image: int) -> Judge:
        said = figures(kind, name, ready=copies, updatedReplicas=copies)
        return every(_settled(kind, name), said, pods(name, copies, image))

    return Life(
        kind,
        "psvc",
        name,
        {
            "create": [
                Step(
                    every(_placed(kind, name), total("Deployment", name, "replicas", 6)),
                    _apply(workloads.service(name, SPACE, 6)),
                )
            ],
            "ready": [Step(well(6, 1))],
            "scale": [
                Step(
                    every(well(9, 1), total("Deployment", name, "replicas", 9)),
                    _scale("psvc", name, 9),
                )
            ],
            "roll out": [Step(well(9, 2), _template("psvc", name, 2))],
            "degrade": [
                Step(
                    every(sick, ill(name, *UNPULLED)),
                    _template("psvc", name, 2, image_pull_error="true"),
                )
            ],
            "recover": [Step(well(9, 2), _template("psvc", name, 2))],
            "finish": Without("a service serves until it is deleted"),
            "delete": [Step(gone(kind, name), _delete("psvc", name))],
        },
    )


def job_set(name: str) -> Life:
    kind, again = "PinterestJobSet", _begin_again(f"{OF_JOB_SET}={name}")
    covers = numbered("Job", name, 8, shards_of)

    def well(running: int, image: int) -> Judge:
        said = figures(kind, name, running=running, done=0, failed=0)
        return every(_settled(kind, name), said, covers, pods(name, running, image))

    obj = workloads.jobset(name, SPACE, 8, 4)
    obj["spec"] |= {"backoffLimitPerShard": 6}
    _behaves(obj["spec"]["template"], **LASTS)
    sick = condition(kind, name, "Ready", "False", "PodFailed")
    complete = every(
        condition(kind, name, "Complete", "True"),
        figures(kind, name, done=8, completedIndexes="0-7", running=0),
        covers,
        pods(name, 0, 2),
    )
    faster, more = '{"spec":{"parallelism":6}}', '{"spec":{"shards":9}}'

    def no_more(fleet: Fleet, view: View) -> None:
        refused(fleet, "pjs", name, more, "the number of shards is fixed")

    return Life(
        kind,
        "pjs",
        name,
        {
            "create": [Step(every(_placed(kind, name), covers), _apply(obj))],
            "ready": [Step(well(4, 1))],
            # What its work was cut into is fixed; how much of that runs at once is not.
            "scale": [Step(well(6, 1), _both(no_more, _patch("pjs", name, faster)))],
            "roll out": [
                Step(
                    every(carried(kind, name, 2, **LASTS), well(6, 1)),
                    _template("pjs", name, 2, **LASTS),
                ),
                Step(well(6, 2), again),
            ],
            "degrade": [
                Step(carried(kind, name, 2, **FAILS), _template("pjs", name, 2, **FAILS)),
                Step(every(sick, _failed_in_members(name, 3)), again),
            ],
            "recover": [
                Step(carried(kind, name, 2, **LASTS), _template("pjs", name, 2, **LASTS)),
                Step(well(6, 2), again),
            ],
            "finish": [
                Step(carried(kind, name, 2, **ENDS), _template("pjs", name, 2, **ENDS)),
                Step(complete, again),
            ],
            "delete": [Step(gone(kind, name), _delete("pjs", name))],
        },
    )


def training_job(name: str) -> Life:
    kind, again = "PinterestTrainingJob", _begin_again(f"{OF_TRAINING}={name}")

    def well(image: int) -> Judge:
        return every(
            _settled(kind, name),
            figures(kind, name, wanted=3, running=3),
            pods(name, 3, image),
            _together(name),
        )

    obj = workloads.training(name, SPACE)
    for component in obj["spec"]["components"]:
        component["backoffLimit"] = 6
    sick = condition(kind, name, "Ready", "False", "ImagePullFailed")
    broken = {**LASTS, "image_pull_error": "true"}
    complete = every(
        condition(kind, name, "Complete", "True"),
        figures(kind, name, completedIndexes="0", running=0),
        pods(name, 0, 2),
    )
    larger = '{"spec":{"components":[{"name":"master"},{"name":"worker","replicas":3}]}}'
    return Life(
        kind,
        "ptj",
        name,
        {
            "create": [Step(every(_placed(kind, name), _one_slice(kind, name)), _apply(obj))],
            "ready": [Step(well(1))],
            "scale": Without(
                "pods that ran have found each other by its components", larger, "is fixed"
            ),
            "roll out": [
                Step(
                    every(carried(kind, name, 2, **LASTS), well(1)),
                    _template("ptj", name, 2, **LASTS),
                ),
                Step(well(2), again),
            ],
            "degrade": [
                Step(carried(kind, name, 2, **broken), _template("ptj", name, 2, **broken)),
                Step(every(sick, ill(name, *UNPULLED)), again),
            ],
            "recover": [
                Step(carried(kind, name, 2, **LASTS), _template("ptj", name, 2, **LASTS)),
                Step(well(2), again),
            ],
            "finish": [
                Step(carried(kind, name, 2, **ENDS), _template("ptj", name, 2, **ENDS)),
                Step(complete, again),
            ],
            "delete": [Step(gone(kind, name), _delete("ptj", name))],
        },
    )


def daemon(name: str, nodes: dict[str, int]) -> Life:
    """On the nodes of one member first, then of two. A new template goes to one member after the
    other, so that a bad one stays in the first."""
    kind, (first, second) = "PinterestDaemon", sorted(nodes)[:2]
    both = nodes[first] + nodes[second]

    def well(count: int, image: int) -> Judge:
        said = figures(kind, name, desired=count, ready=count, updated=count)
        return every(_settled(kind, name), said, pods(name, count, image))

    def placed(*members: str) -> dict[str, Any]:
        return {"clusters": {"names": members}}

    obj = workloads.daemon(
        name,
        SPACE,
        placement=placed(first),
        updateStrategy={"maxUnavailable": "50%"},
    )
    sick = condition(kind, name, "Ready", "False")
    return Life(
        kind,
        "pdm",
        name,
        {
            "create": [Step(_placed(kind, name), _apply(obj))],
            "ready": [Step(every(well(nodes[first], 1), _only_in(name, first)))],
            # It has no number of copies: it grows with the clusters that match, and their nodes.
            "scale": [
                Step(
                    every(well(both, 1), _only_in(name, first, second)),
                    _patch("pdm", name, json.dumps({"spec": {"placement": placed(first, second)}})),
                )
            ],
            "roll out": [Step(well(both, 2), _template("pdm", name, 2))],
            "degrade": [
                Step(
                    every(sick, ill(name), _one_has_it(kind, name, never_ready="true")),
                    _template("pdm", name, 2, never_ready="true"),
                )
            ],
            "recover": [Step(well(both, 2), _template("pdm", name, 2))],
            "finish": Without(
                "its pods run for as long as their node does",
                '{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}',
                "the pods of a daemon have restartPolicy Always",
            ),
            "delete": [Step(gone(kind, name), _delete("pdm", name))],
        },
    )


def stateful_set(name: str) -> Life:
    kind = "PinterestStatefulSet"

    def well(count: int, image: int) -> Judge:
        return every(
            _settled(kind, name),
            figures(kind, name, ready=count, updatedReplicas=count),
            pods(name, count, image),
            numbered("StatefulSet", name, count, ordinals_of),
            numbered("Pod", name, count, _number),
            numbered("PersistentVolumeClaim", name, count, _number),
        )

    sick = condition(kind, name, "Ready", "False", "ImagePullFailed")
    return Life(
        kind,
        "psts",
        name,
        {
            "create": [Step(_placed(kind, name), _apply(workloads.stateful(name, SPACE, 3)))],
            "ready": [Step(well(3, 1))],
            "scale": [Step(well(5, 1), _scale("psts", name, 5))],
            "roll out": [Step(well(5, 2), _template("psts", name, 2))],
            "degrade": [
                Step(
                    every(sick, ill(name, *UNPULLED)),
                    _template("psts", name, 2, image_pull_error="true"),
                )
            ],
            # Kubernetes waits for a pod of an OrderedReady set that will never be ready, whatever
            # its template says by now: a person deletes it.
            "recover": [
                Step(carried(kind, name, 2), _template("psts", name, 2)),
                Step(well(5, 2), _delete_ill_pods(name)),
            ],
            "finish": Without(
                "its ordinals serve until they are scaled away",
                '{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}',
                "the pods of a stateful set have restartPolicy Always",
            ),
            "delete": [
                Step(gone(kind, name, keeps=5), _delete("psts", name)),
                Step(gone(kind, name), _in_members("delete", "pvc", "--all", "--wait=false")),
            ],
        },
    )


def cron_job(name: str, *, owned_are_collected: bool) -> Life:
    """It has one run, at the next full minute. What is edited of the cron job is for later runs;
    what its run does is told to the run, which is a PinterestJobSet."""
    kind = "PinterestCronJob"

    def well(running: int, reason: str = "Scheduled") -> Judge:
        said = figures(kind, name, activeRuns=1)
        status = "True" if reason == "Scheduled" else "False"
        ready = condition(kind, name, "Ready", status, reason)
        return every(ready, said, _run_has(name, running=running), pods(name, running, 1))

    run_template = workloads.jobset(name, SPACE, 2, 1)["spec"]
    _behaves(run_template["template"], **LASTS)
    forbids = {"concurrencyPolicy": "Forbid", "suspend": True}
    obj = workloads.cronjob(name, SPACE, EACH_MINUTE, run_template, **forbids)

    def of_run(act: Callable[[str], Act]) -> Act:
        return lambda fleet, view: act(_run(view, name))(fleet, view)

    both = of_run(lambda run: _patch("pjs", run, '{"spec":{"parallelism":2}}'))
    brief = of_run(lambda run: _template("pjs", run, 1, **ENDS))
    again = of_run(lambda run: _begin_again(f"{OF_JOB_SET}={run}"))
    last = _patch("pcj", name, json.dumps({"spec": {"schedule": LEAP_DAYS}}))
    never = _patch("pcj", name, json.dumps({"spec": {"schedule": NEVER}}))
    stalled = condition(kind, name, "Stalled", "True", "NeverRuns")
    ended = every(
        condition(kind, name, "Ready", "True", "Scheduled"),
        figures(kind, name, activeRuns=0),
        _run_has(name, done=2, running=0),
        pods(name, 0, 1),
    )
    delete = _delete("pcj", name)
    if not owned_are_collected:
        delete = _both(of_run(lambda run: _delete("pjs", run)), delete)
    return Life(
        kind,
        "pcj",
        name,
        {
            "create": [
                Step(
                    every(condition(kind, name, "Ready", "False", "Suspended"), pods(name, 0, 1)),
                    _apply(obj),
                )
            ],
            "ready": [
                Step(well(1), _patch("pcj", name, '{"spec":{"suspend":false}}')),
                Step(well(1), last),
            ],
            "scale": [Step(well(2), both)],
            "roll out": [
                Step(well(2), _template("pcj", name, 2, inside="/jobTemplate/spec", **LASTS))
            ],
            "degrade": [Step(every(stalled, well(2, "NeverRuns")), never)],
            "recover": [Step(well(2), last)],
            "finish": [Step(_run_carried(name, 1, **ENDS), brief), Step(ended, again)],
            "delete": [Step(gone(kind, name), delete)],
        },
    )


# What is judged


def _placed(kind: str, name: str) -> Judge:
    return condition(kind, name, "Placed", "True")


def _settled(kind: str, name: str) -> Judge:
    return every(
        condition(kind, name, "Ready", "True"), condition(kind, name, "Reconciling", "False")
    )


def _failed_in_members(name: str, code: int) -> Judge:
    def judge(view: View) -> str:
        codes = {
            container["state"]["terminated"]["exitCode"]
            for _, pod in view.all_pods(name)
            for container in containers_of(pod)
            if "terminated" in container["state"]
        }
        return "" if code in codes else f"containers ended with {sorted(codes)}"

    return judge


def _only_in(name: str, *members: str) -> Judge:
    def judge(view: View) -> str:
        found = {member for member, _ in view.all_pods(name)}
        return "" if found == set(members) else f"its pods are in {sorted(found)}"

    return judge


def _together(name: str) -> Judge:
    def judge(view: View) -> str:
        found = {member for member, _ in view.all_pods(name)}
        return "" if len(found) == 1 else f"its pods are in {sorted(found)}"

    return judge


def _one_slice(kind: str, name: str) -> Judge:
    def judge(view: View) -> str:
        found = view.slices(kind, name)
        return "" if len(found) == 1 else f"it has slices in {sorted(found)}"

    return judge


def _one_has_it(kind: str, name: str, **behaviour: str) -> Judge:
    """One slice has pods that behave so."""

    def judge(view: View) -> str:
        found = [
            member
            for member, obj in view.slices(kind, name).items()
            if raw.text_map(obj, "spec", "template", "metadata", "annotations") == notes(behaviour)
        ]
        return "" if len(found) == 1 else f"the new template is in {found}"

    return judge


def _number(obj: Obj) -> Sequence[int]:
    return [int(str(obj["metadata"]["name"]).rpartition("-")[2])]


def _run(view: View, name: str) -> str:
    """The run of a cron job; "" for none."""
    for obj in view.host:
        if raw.text(obj, "metadata", "labels", RUN_LABEL) == name:
            return str(obj["metadata"]["name"])
    return ""


def _run_has(name: str, **wanted: object) -> Judge:
    return lambda view: figures("PinterestJobSet", _run(view, name), **wanted)(view)


def _run_carried(name: str, image: int, **behaviour: str) -> Judge:
    return lambda view: carried("PinterestJobSet", _run(view, name), image, **behaviour)(view)


# What is done


def _apply(obj: Obj) -> Act:
    return lambda fleet, view: _say(fleet, "apply", "-f", fleet.manifest(obj))


def _scale(resource: str, name: str, replicas: int) -> Act:
    words = ("scale", f"{resource}/{name}", f"--replicas={replicas}", *IN)
    return lambda fleet, view: _say(fleet, *words)


def _patch(resource: str, name: str, body: str) -> Act:
    words = ("patch", resource, name, *IN, "--type=merge", "-p", body)
    return lambda fleet, view: _say(fleet, *words)


def _template(resource: str, name: str, image: int, *, inside: str = "", **behaviour: str) -> Act:
    """Other pods: of that image, and behaving so."""
    path = f"/spec{inside}/template"

    def act(fleet: Fleet, view: View) -> None:
        body = [
            {"op": "replace", "path": f"{path}/spec/containers/0/image", "value": _image(image)},
            {"op": "add", "path": f"{path}/metadata/annotations", "value": notes(behaviour)},
        ]
        _say(fleet, "patch", resource, name, *IN, "--type=json", "-p", json.dumps(body))

    return act


def _image(number: int) -> str:
    return f"registry.example/lives:{number}"


def _behaves(template: dict[str, Any], **behaviour: str) -> None:
    template["metadata"]["annotations"] = notes(behaviour)


def _delete(resource: str, name: str) -> Act:
    return lambda fleet, view: _say(fleet, "delete", resource, name, *IN, "--wait=false")


def _begin_again(selector: str) -> Act:
    """The members make the Jobs again, from the template that the slices have now."""
    return _in_members("delete", "jobs", "-l", selector, "--wait=false")


def _in_members(*words: str) -> Act:
    def act(fleet: Fleet, view: View) -> None:
        for shell in fleet.members.values():
            shell(*words, *IN)

    return act


def _delete_ill_pods(name: str) -> Act:
    def act(fleet: Fleet, view: View) -> None:
        for member, pod in view.pods(name):
            if not is_ready(pod):
                words = ("delete", "pod", pod["metadata"]["name"], "--ignore-not-found")
                fleet.members[member](*words, *IN, "--wait=false")

    return act


def _both(first: Act, second: Act) -> Act:
    def act(fleet: Fleet, view: View) -> None:
        first(fleet, view)
        second(fleet, view)

    return act


def _say(fleet: Fleet, *words: str) -> None:
    fleet.host(*words)


def main(kubeconfig: Path) -> None:
    """The same in a federation that runs, such as `federator demo`. Its kubeconfig has a context
    for each cluster; that of the host is called host."""
    program = build.kubectl()
    assert program is not None, "There is no kubectl."
    with tempfile.TemporaryDirectory() as home:
        shells = {
            context["name"]: Shell(
                (str(program), "--context", context["name"]), Path(home), kubeconfig.absolute()
            )
            for context in yaml.safe_load(kubeconfig.read_text())["contexts"]
        }
        fleet = Fleet("demo", Path(home), shells.pop("host"), shells)
        account = workloads.account(
            SPACE, projects=[SPACE], namespaces=[SPACE], iamRoles=["role-*"]
        )
        fleet.host("create", "ns", SPACE)
        fleet.host("apply", "-f", fleet.manifest(account))
        print(live(fleet, kinds(fleet), within_s=100.0))
        nothing_is_left(fleet)
        fleet.host("delete", "fq", SPACE)
        fleet.host("delete", "ns", SPACE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

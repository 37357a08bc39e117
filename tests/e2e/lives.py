"""The whole life of workloads, from `kubectl apply` to the last pod that is gone, told by tables.

A `Life` says for each stage what is done and by what it is judged: by what the host says of the
workload, and by what the members hold. Each workload goes on as soon as its own stage is over; none
waits for the others.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from federator.api import raw
from federator.kinds.labels import SHARDS_ANNOTATION
from tests.e2e import workloads
from tests.e2e.federations import Fleet, Shell, until

Obj = Mapping[str, Any]

SPACE = "lives"
STAGES = ("create", "ready", "scale", "roll out", "degrade", "recover", "finish", "delete")
ON_HOST = "psvc,pjs,pcj,pdm,ptj,psts,pd"
IN_MEMBERS = "psvc,pjs,pdm,ptj,psts,deploy,jobs,ds,sts,pods,pvc"
BESIDE = "rs,svc,cm,sa"
"""What else workloads become in members."""
EVERYWHERE = ("default", "kube-root-ca.crt")
"""What every namespace has."""
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class View:
    """What kubectl shows of the namespace at one moment."""

    host: Sequence[Obj]
    members: Mapping[str, Sequence[Obj]]

    def workload(self, kind: str, name: str) -> Obj:
        """The host's object; empty where it is not there."""
        return next((obj for obj in self.host if _is(obj, kind, name)), {})

    def slices(self, kind: str, name: str) -> dict[str, Obj]:
        """By member."""
        return {
            member: obj
            for member, objs in self.members.items()
            for obj in objs
            if _is(obj, kind, name)
        }

    def natives(self, kind: str, name: str) -> list[Obj]:
        """The objects of that kind that bear the workload's name, or a name made from it."""
        return [
            obj
            for objs in self.members.values()
            for obj in objs
            if obj["kind"] == kind and belongs(obj, name)
        ]

    def pods(self, name: str) -> list[tuple[str, Obj]]:
        """(member, pod) of those that have neither ended nor are about to."""
        return [
            (member, pod)
            for member, pod in self.all_pods(name)
            if "deletionTimestamp" not in pod["metadata"]
            and raw.text(pod, "status", "phase") not in ("Succeeded", "Failed")
        ]

    def all_pods(self, name: str) -> Iterator[tuple[str, Obj]]:
        """(member, pod) of whatever state; `name` is in a label of the template."""
        for member, objs in self.members.items():
            for obj in objs:
                if obj["kind"] == "Pod" and raw.text(obj, "metadata", "labels", "app") == name:
                    yield member, obj


Act = Callable[[Fleet, View], None]
Judge = Callable[[View], str]
"""Why it is not so yet, in words; "" when it is."""


@dataclass(frozen=True, slots=True)
class Step:
    """`act` is done once, then it is waited until `judge` has nothing to say."""

    judge: Judge
    act: Act | None = None


@dataclass(frozen=True, slots=True)
class Without:
    """A stage that has no meaning for a kind, and why. Who asks for it all the same (`patch`) is
    refused, in these `words`."""

    why: str
    patch: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """A workload of one kind. `resource` is what kubectl calls the kind."""

    kind: str
    resource: str
    name: str
    stages: Mapping[str, Sequence[Step] | Without]


@dataclass(slots=True)
class Standing:
    """How far one life has come."""

    life: Life
    since_s: float
    stage: int = 0
    step: int = 0
    acted: bool = False
    why_not: str = ""
    story: str = ""
    """The stages that are over, with the seconds they took."""

    @property
    def over(self) -> bool:
        return self.stage == len(STAGES)

    def advance(self, fleet: Fleet, view: View) -> None:
        """As far as what is seen lets it: what an act brings about is for a later look."""
        while not self.over:
            cell = self.life.stages[STAGES[self.stage]]
            if isinstance(cell, Without):
                if cell.patch:
                    refused(fleet, self.life.resource, self.life.name, cell.patch, cell.words)
                self._next("-")
                continue
            step = cell[self.step]
            if step.act is not None and not self.acted:
                step.act(fleet, view)
                self.acted = True
                return
            self.why_not = step.judge(view)
            if self.why_not:
                return
            self.step, self.acted = self.step + 1, False
            if self.step == len(cell):
                self._next(f"{time.monotonic() - self.since_s:.0f} s")

    def _next(self, took: str) -> None:
        self.story += f"{STAGES[self.stage]} {took}, "
        self.stage, self.step, self.acted, self.why_not = self.stage + 1, 0, False, ""
        self.since_s = time.monotonic()

    def told(self) -> str:
        if self.over:
            return f"{self.life.kind}: {self.story.removesuffix(', ')}"
        return f"{self.life.kind}: {self.story}{STAGES[self.stage]}... {self.why_not}"


def live(fleet: Fleet, lives: Sequence[Life], within_s: float) -> str:
    """Leads every life to its end, all at once. Returns how long each stage took. Raises
    AssertionError where one stage lasts longer than `within_s`, with the standing of all.
    """
    assert all(tuple(life.stages) == STAGES for life in lives)
    standings = [Standing(life, time.monotonic()) for life in lives]
    while not all(standing.over for standing in standings):
        view = look(fleet)
        for standing in standings:
            standing.advance(fleet, view)
            late = not standing.over and time.monotonic() - standing.since_s > within_s
            assert not late, "\n".join(each.told() for each in standings)
        time.sleep(LOOK_S)
    return "\n".join(standing.told() for standing in standings)


def look(fleet: Fleet) -> View:
    """All clusters are asked at once."""

    def listed(shell: Shell, kinds: str) -> list[Obj]:
        return list(shell.items(kinds, "-n", SPACE))

    with ThreadPoolExecutor(len(fleet.members) + 1) as pool:
        host = pool.submit(listed, fleet.host, ON_HOST)
        members = {
            name: pool.submit(listed, shell, IN_MEMBERS) for name, shell in fleet.members.items()
        }
        return View(host.result(), {name: found.result() for name, found in members.items()})


def refused(fleet: Fleet, resource: str, name: str, patch: str, words: str) -> None:
    """Nobody may change it so."""
    ran = fleet.host.run("patch", resource, name, "-n", SPACE, "--type=merge", "-p", patch)
    assert ran.code != 0, f"{resource}/{name}: {patch} was taken"
    assert words in ran.err, ran.err


def nothing_is_left(fleet: Fleet) -> None:
    """Of all lives, in the members."""

    def left() -> list[str]:
        return [
            f"{member}: {obj['kind']} {obj['metadata']['name']}"
            for member, shell in fleet.members.items()
            for obj in shell.items(f"{IN_MEMBERS},{BESIDE}", "-n", SPACE)
            if obj["metadata"]["name"] not in EVERYWHERE
        ]

    until(lambda: left() == [], lambda: f"left: {left()}")


# What is judged


def every(*judges: Judge) -> Judge:
    """What the first of them has to say."""
    return lambda view: next(filter(None, (judge(view) for judge in judges)), "")


def condition(kind: str, name: str, type_: str, status: str, reason: str = "") -> Judge:
    """About the present generation."""

    def judge(view: View) -> str:
        obj = view.workload(kind, name)
        found = raw.condition(obj, type_)
        here = (found.get("status"), found.get("reason"))
        if here[0] != status or (reason and here[1] != reason):
            return f"{type_} is {here}, not {(status, reason)}: {found.get('message')}"
        return observed(obj)

    return judge


def observed(obj: Obj) -> str:
    generation = raw.integer(obj, "metadata", "generation")
    seen = raw.integer(obj, "status", "observedGeneration")
    return "" if obj and seen == generation else f"generation {seen} of {generation} is observed"


def figures(kind: str, name: str, **wanted: object) -> Judge:
    """Fields of the host's status."""

    def judge(view: View) -> str:
        status = raw.mapping(view.workload(kind, name), "status")
        found = {field: status.get(field) for field in wanted}
        return "" if found == wanted else f"the host says {found}, not {wanted}"

    return judge


def pods(name: str, count: int, image: int) -> Judge:
    """So many pods run in the members, all of them ready and of that image."""

    def judge(view: View) -> str:
        running = view.pods(name)
        well = [pod for _, pod in running if is_ready(pod) and image_of(pod["spec"]) == image]
        if len(well) == len(running) == count:
            return ""
        return f"{len(well)} of {len(running)} pods are ready with image {image}, not {count}"

    return judge


def ill(name: str, *reasons: str) -> Judge:
    """Some pods in the members are not ready, and their containers wait for one of the reasons, or
    run where none is given."""

    def judge(view: View) -> str:
        told = {
            raw.text(container, "state", "waiting", "reason")
            for _, pod in view.pods(name)
            if not is_ready(pod)
            for container in containers_of(pod)
        }
        return "" if told & set(reasons or ("",)) else f"pods wait for {sorted(told)}"

    return judge


def carried(kind: str, name: str, image: int, **behaviour: str) -> Judge:
    """Every slice has that template, and its member has acted on it."""

    def judge(view: View) -> str:
        slices = view.slices(kind, name)
        for member, obj in slices.items():
            template = raw.mapping(obj, "spec", "template")
            annotations = raw.text_map(template, "metadata", "annotations")
            if image_of(template["spec"]) != image or annotations != notes(behaviour):
                return f"{member} has not the new template"
            if problem := observed(obj):
                return f"{member}: {problem}"
        return "" if slices else "there is no slice"

    return judge


def numbered(kind: str, name: str, count: int, of: Callable[[Obj], Sequence[int]]) -> Judge:
    """The natives of that kind have every number below `count`, and none of them twice."""

    def judge(view: View) -> str:
        found = sorted(number for obj in view.natives(kind, name) for number in of(obj))
        return "" if found == list(range(count)) else f"{kind}s of {name} have {found}"

    return judge


def shards_of(job: Obj) -> Sequence[int]:
    low, _, high = raw.text(job, "metadata", "annotations", SHARDS_ANNOTATION).partition("-")
    return range(int(low), int(high or low) + 1)


def ordinals_of(stateful: Obj) -> Sequence[int]:
    start = raw.integer(stateful, "spec", "ordinals", "start")
    return range(start, start + raw.integer(stateful, "spec", "replicas"))


def total(kind: str, name: str, field: str, wanted: int) -> Judge:
    """The sum of a field of spec over the natives."""

    def judge(view: View) -> str:
        found = sum(raw.integer(obj, "spec", field) for obj in view.natives(kind, name))
        return "" if found == wanted else f"{kind}s of {name} have {field} {found}, not {wanted}"

    return judge


def gone(kind: str, name: str, *, keeps: int = 0) -> Judge:
    """On the host, in its decisions, and in every member; so many claims are left."""

    def judge(view: View) -> str:
        if view.workload(kind, name):
            return "the host still has it"
        decisions = [obj for obj in view.host if raw.text(obj, "spec", "workload", "name") == name]
        if decisions:
            return "it still has a decision"
        left = [
            f"{member}: {obj['kind']} {obj['metadata']['name']}"
            for member, objs in view.members.items()
            for obj in objs
            if belongs(obj, name)
        ]
        claims = [text for text in left if "PersistentVolumeClaim" in text]
        if len(claims) != keeps or len(left) > keeps:
            return f"left: {left}, and {keeps} claims should be"
        return ""

    return judge


def belongs(obj: Obj, name: str) -> bool:
    """By its name: claims of ordinals begin with that of their template."""
    own = str(obj["metadata"]["name"]).removeprefix("data-")
    return own == name or own.startswith(f"{name}-")


def containers_of(pod: Obj) -> list[Obj]:
    """What is reported of each, those of a profile's steps before the others included."""
    lists = ("initContainerStatuses", "containerStatuses")
    return [container for each in lists for container in raw.objects(pod, "status", each)]


def is_ready(pod: Obj) -> bool:
    return raw.condition(pod, "Ready").get("status") == "True"


def image_of(pod_spec: Obj) -> int:
    return int(str(pod_spec["containers"][0]["image"]).rpartition(":")[2])


def _is(obj: Obj, kind: str, name: str) -> bool:
    return bool(obj["kind"] == kind and obj["metadata"]["name"] == name)


def notes(behaviour: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a template whose pods start at once and then behave like that."""
    told = {
        f"embedded.federator/{name.replace('_', '-')}": text for name, text in behaviour.items()
    }
    return {**workloads.START, **told}

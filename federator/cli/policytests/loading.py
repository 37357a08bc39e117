"""Reads policy tests from a directory: finds the files, reads their fixtures, and checks that every
name in an expectation is in them. All problems of a file are reported together.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from federator.advice.plans import edits as editing
from federator.api import raw
from federator.api.placement import placementinvariant
from federator.cli import views
from federator.cli.files import manifests
from federator.cli.policytests import schema
from federator.hub.placing import objects, offline
from federator.hub.placing.offline import Id
from federator.kinds import read as reading
from federator.kinds import registry
from federator.model import errors
from federator.model.errors import FieldError
from federator.model.manifests import Manifest, Unreadable
from federator.model.names import WorkloadKey
from federator.model.rules.invariant import Survives
from federator.simulate.scenario import fields

Obj = dict[str, Any]
TESTS: Final = "tests"
_TESTS: Final = re.compile(rf"""["']?{TESTS}["']?\s*:""")
_KIND: Final = re.compile(r"^kind\s*:", re.MULTILINE)
COMMAND: Final = "federator test DIR"


@dataclass(frozen=True, slots=True)
class Placement:
    """What is expected of one workload. `path`: where the file says it."""

    path: str
    key: WorkloadKey
    expect: schema.Decided


@dataclass(frozen=True, slots=True)
class Refusal:
    """An object that is not to be taken."""

    path: str
    obj: Obj
    expect: schema.Refusal


@dataclass(frozen=True, slots=True)
class Planning:
    """Edits, as `advice.plans.asked` takes them, and what is expected of them."""

    path: str
    asked: Mapping[str, Any]
    expect: schema.Planned
    workloads: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One test."""

    name: str
    path: str
    objs: tuple[Obj, ...]
    """The fixtures."""
    placements: tuple[Placement, ...]
    refusals: tuple[Refusal, ...]
    plan: Planning | None


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one file. With `problems` none of them can run."""

    file: str
    cases: tuple[Case, ...] = ()
    problems: tuple[str, ...] = ()
    """Sentences that begin with the file."""


def suites(name: str) -> list[Suite]:
    """The test files of a directory in the order of their paths, or one file. Raises `Unreadable`
    when there is none."""
    made: list[Suite] = []
    for path in _files(Path(name)):
        try:
            document = _document(path)
        except Unreadable as bad:
            made.append(Suite(str(path), problems=bad.sentences))
            continue
        if document is not None:
            made.append(_Reader(str(path), path.parent).suite(document))
    if not made:
        raise Unreadable(f"{name}: contains no test; a test file has the field {TESTS}")
    return made


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise Unreadable(f"{path}: there is no such file or directory")
    every: list[Path] = []
    for base, below, names in os.walk(path):
        below[:] = [name for name in below if not name.startswith(".")]
        every += [
            Path(base, name)
            for name in names
            if not name.startswith(".") and Path(name).suffix in manifests.SUFFIXES
        ]
    return sorted(every)


def _document(path: Path) -> Obj | None:
    """The document of a test file; None for a file of objects. Raises Unreadable."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as bad:
        why = getattr(bad, "strerror", None) or str(bad)
        raise Unreadable(f"{path}: cannot be read: {why}") from None
    if _KIND.search(text) and _TESTS.search(text) is None:
        return None  # objects, perhaps a large fleet, are read where a test names them
    try:
        documents = reading.load_yaml(text)
    except reading.InvalidObject as bad:
        raise Unreadable(*(f"{path}: {problem}" for problem in bad.errors)) from None
    others = [document for document in documents if TESTS not in document]
    if len(others) < len(documents):
        if len(documents) > 1:
            raise Unreadable(f"{path}: has {len(documents)} documents; a test file has one")
        return documents[0]
    for document in others:
        if not document.get("kind") and path.name not in manifests.KUSTOMIZATIONS:
            near = fields.near(next(iter(map(str, document)), ""), [TESTS])
            raise Unreadable(
                f"{path}: is neither a test, which has the field {TESTS}, nor an object, which has"
                f" a kind; it has {', '.join(map(str, document)) or 'no field'}"
                f"{near if near.startswith(' (') else ''}"
            )
    return None


@dataclass(slots=True)
class _Reader:
    """Reads one test file."""

    file: str
    folder: Path
    problems: list[str] = field(default_factory=list)

    def suite(self, document: Obj) -> Suite:
        try:
            given = schema.File.model_validate(document)
        except ValidationError as bad:
            wrong = fields.problems(schema.File, bad)
            return Suite(self.file, problems=tuple(f"{self.file}: {each}" for each in wrong))
        common = self._objects(given.fixtures, "fixtures", given.namespace)
        if self.problems:
            return Suite(self.file, problems=tuple(self.problems))
        cases = [
            case
            for index, test in enumerate(given.tests)
            if (case := self._case(test, f"{TESTS}[{index}]", common, given.namespace))
        ]
        names = [test.name for test in given.tests]
        for index, name in enumerate(names):
            if name in names[:index]:
                first = f"{TESTS}[{names.index(name)}]"
                self._wrong(f"{TESTS}[{index}].name", f"{name!r} is the name of {first} already")
        if self.problems:
            return Suite(self.file, problems=tuple(self.problems))
        return Suite(self.file, tuple(cases))

    def _wrong(self, path: str, message: str) -> None:
        self.problems.append(f"{self.file}: {FieldError(path, message)}")

    # -- objects --------------------------------------------------------------

    def _manifests(self, sources: Iterable[Any], path: str) -> Iterator[tuple[str, list[Manifest]]]:
        """(where the test file says it, objects there) of each source that can be read."""
        for index, source in enumerate(sources):
            at = f"{path}[{index}]"
            try:
                yield at, self._source(source, at)
            except Unreadable as bad:
                for sentence in bad.sentences:
                    self._wrong(at, sentence)

    def _source(self, source: Any, at: str) -> list[Manifest]:
        """The objects of a path, or the one that is written there. Raises Unreadable."""
        if isinstance(source, dict):
            return [Manifest(source, at, 0)]

        def refused(bad: Unreadable) -> None:
            raise bad

        name = str(self.folder / source)
        return manifests.read([name], recursive=True, command=COMMAND, refused=refused)

    def _objects(self, sources: Sequence[Any], path: str, namespace: str) -> dict[Id, Obj]:
        def ignored(manifest: Manifest, why: str) -> None:
            if not manifest.document:  # whole directories may be named; what is written here counts
                raise Unreadable(f"{manifest.where}: {why}")

        given = [each for _, part in self._manifests(sources, path) for each in part]
        try:
            objs = objects.checked(given, namespace, ignored)
        except Unreadable as bad:
            for sentence in bad.sentences:
                inside = sentence.startswith(f"{path}[")
                self.problems.append(
                    f"{self.file}: {sentence if inside else f'{path}: {sentence}'}"
                )
            return {}
        return {offline.id_of(obj): obj for obj in objs}

    # -- tests ----------------------------------------------------------------

    def _case(
        self, test: schema.Test, path: str, common: Mapping[Id, Obj], namespace: str
    ) -> Case | None:
        """The test; None where its fixtures cannot be used."""
        if not (test.placements or test.refusals or test.plan):
            self._wrong(path, "expects nothing; add placements, refusals or plan")
        before = len(self.problems)
        objs = {**common, **self._objects(test.fixtures, f"{path}.fixtures", namespace)}
        expects = bool(test.placements or test.plan or any(each.reason for each in test.refusals))
        if expects and not any(kind == "MemberCluster" for kind, *_ in objs):
            self._wrong(f"{path}.fixtures", "there is no MemberCluster, so nothing can be placed")
        if len(self.problems) > before:
            return None
        known = _Known(objs)
        return Case(
            test.name,
            path,
            tuple(objs.values()),
            self._placements(test.placements, f"{path}.placements", known, namespace),
            tuple(self._refusals(test.refusals, f"{path}.refusals", namespace)),
            self._plan(test.plan, f"{path}.plan", objs, namespace) if test.plan else None,
        )

    def _placements(
        self, given: Sequence[schema.Decided], path: str, known: "_Known", namespace: str
    ) -> tuple[Placement, ...]:
        made = []
        for index, expect in enumerate(given):
            at = f"{path}[{index}]"
            if expect.model_fields_set <= {"workload"}:
                self._wrong(at, "names nothing to check; add clusters, domains, short or reason")
            for where, message in known.problems(expect):
                self._wrong(errors.join(at, where), message)
            which = self._name(expect.workload, f"{at}.workload", namespace)
            if which is None:
                continue
            if message := known.missing(which):
                self._wrong(f"{at}.workload", message)
            made.append(Placement(at, WorkloadKey(*which), expect))
        return tuple(made)

    def _refusals(
        self, given: Sequence[schema.Refusal], path: str, namespace: str
    ) -> Iterator[Refusal]:
        for index, expect in enumerate(given):
            at = f"{path}[{index}]"
            for where, objs in self._manifests([expect.object], f"{at}.object"):
                if len(objs) != 1:
                    self._wrong(where, f"has {len(objs)} objects; a refusal is about one")
                    continue
                obj = objs[0].obj
                if not (obj.get("kind") and raw.text(obj, "metadata", "name")):
                    self._wrong(f"{at}.object", "has no kind, or no metadata.name")
                    continue
                kind = str(obj["kind"])
                if kind not in editing.KINDS:
                    near = fields.near(kind, sorted(editing.KINDS))
                    self._wrong(f"{at}.object.kind", f"{kind!r} is no kind that is tested{near}")
                    continue
                objects.settle(obj, namespace)
                yield Refusal(at, obj, expect)

    def _plan(
        self, plan: schema.Plan, path: str, objs: Mapping[Id, Obj], namespace: str
    ) -> Planning:
        if not (plan.apply or plan.delete or plan.lose or plan.scale):
            self._wrong(path, "names no edit; add apply, delete, lose or scale")
        if not plan.expect.model_fields_set:
            self._wrong(f"{path}.expect", "names nothing to check; add exit, moves or workloads")
        applied = self._objects(plan.apply, f"{path}.apply", namespace)
        known = _Known({**objs, **applied})
        for index, name in enumerate(plan.expect.uncovered or ()):
            if message := known.no_cluster(name):
                self._wrong(f"{path}.expect.uncovered[{index}]", message)
        for index, name in enumerate(plan.expect.breaks or ()):
            if message := known.no_invariant(name, losses=plan.losses):
                self._wrong(f"{path}.expect.breaks[{index}]", message)
        deleted = [
            which
            for index, text in enumerate(plan.delete)
            if (which := self._name(text, f"{path}.delete[{index}]", namespace))
        ]
        scaled = [
            (which, count)
            for text, count in plan.scale.items()
            if (which := self._name(text, f"{path}.scale.{text}", namespace))
        ]
        return Planning(
            path,
            {
                "applied": tuple(applied.values()),
                "deleted": deleted,
                "lost": plan.lose,
                "scaled": scaled,
                "losses": plan.losses,
            },
            plan.expect,
            self._placements(plan.expect.workloads, f"{path}.expect.workloads", known, namespace),
        )

    def _name(self, text: str, path: str, namespace: str) -> Id | None:
        """The object that KIND/NAME or KIND/NAMESPACE/NAME names."""
        prefix, *names = text.split("/")
        kind = registry.KINDS.get(views.ALIASES.get(prefix.lower(), ""))
        if len(names) not in (1, 2) or not all(names):
            self._wrong(path, f"{text!r} is not KIND/NAME or KIND/NAMESPACE/NAME, as psvc/feed/web")
        elif kind is None:
            near = fields.near(prefix, sorted(views.ALIASES))
            self._wrong(path, f"there is no kind {prefix!r}{near}")
        elif len(names) == 2 and not kind.namespaced:
            self._wrong(path, f"a {kind.kind} has no namespace; write {prefix}/{names[-1]}")
        else:
            return (
                kind.kind,
                (names[0] if len(names) == 2 else namespace) * kind.namespaced,
                names[-1],
            )
        return None


class _Known:
    """Names that expectations may use."""

    def __init__(self, objs: Mapping[Id, Obj]) -> None:
        self._workloads = ["/".join(which) for which in objs if which[0] in registry.WORKLOADS]
        self._clusters = [name for kind, _, name in objs if kind == "MemberCluster"]
        self._invariants = {
            which[2]: placementinvariant.to_invariant(obj)
            for which, obj in objs.items()
            if which[0] == placementinvariant.KIND
        }
        self._labels: dict[str, set[str]] = {}
        for (kind, _, _), obj in objs.items():
            if kind == "MemberCluster":
                for label, value in raw.text_map(obj, "metadata", "labels").items():
                    self._labels.setdefault(label, set()).add(value)

    def missing(self, which: Id) -> str:
        """Why this is no workload of the fixtures; "" when it is."""
        name = "/".join(which)
        if which[0] not in registry.WORKLOADS:
            return f"a {which[0]} is no workload"
        if name in self._workloads:
            return ""
        return f"{name} is in no fixture{fields.near(name, self._workloads)}"

    def no_cluster(self, name: str) -> str:
        """Why this is no cluster of the fixtures; "" when it is."""
        if name in self._clusters:
            return ""
        return f"the fixtures have no cluster {name}{fields.near(name, self._clusters)}"

    def no_invariant(self, name: str, *, losses: bool) -> str:
        """Why a plan cannot break this invariant; "" when it can. `losses`: whether losses are
        tried."""
        if name not in self._invariants:
            near = fields.near(name, sorted(self._invariants))
            return f"the fixtures and the edits have no PlacementInvariant {name}{near}"
        if isinstance(self._invariants[name].rule, Survives) and not losses:
            return f"{name} has the rule survives, which losses: false leaves out"
        return ""

    def problems(self, expect: schema.Decided) -> Iterator[tuple[str, str]]:
        """(path, what is wrong) of clusters and labels that are in no fixture."""
        named = ("clusters", "leaves", "enters")
        for field_name in named:
            for name in getattr(expect, field_name, None) or ():
                if message := self.no_cluster(name):
                    yield f"{field_name}.{name}", message
        for label, values in (expect.domains or {}).items():
            known = sorted(self._labels.get(label, ()))
            if not known:
                near = fields.near(label, sorted(self._labels))
                yield f"domains.{label}", f"no cluster of the fixtures has this label{near}"
                continue
            for value in values:
                if value not in known:
                    near = fields.near(value, known)
                    yield f"domains.{label}.{value}", f"no cluster has this value{near}"

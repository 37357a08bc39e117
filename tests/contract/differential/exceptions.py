"""The differences between the embedded API and a real server that stay, each with its reason. At
most 15 rows for the newest Kubernetes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.contract.differential.corekinds import CORE
from tests.contract.differential.customkinds import CUSTOM
from tests.contract.differential.kinds import Object
from tests.contract.differential.steps import Step
from tests.contract.differential.workloadkinds import WORKLOADS
from tests.controlplane import build

AT_MOST = 15


@dataclass(frozen=True, slots=True)
class Row:
    """One accepted difference. Empty patterns match everything; `real` and `mine` are searched in
    the repr.
    """

    name: str
    reason: str
    verbs: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    path: str = ""
    real: str = ""
    mine: str = ""
    in_bookmark: bool = False
    """Only within what a bookmark carries beside its metadata."""
    message: str = ""
    mine_message: str = ""
    """Only when the messages of both refusals match."""
    ends: bool = False
    """The stored objects differ from here on, so that the rest of the sequence is not compared."""
    shows: str = ""
    """Not empty: what the real server answered has this pattern in it."""
    nameless: bool = False
    """Only when the real server answered with an object that has no name."""
    passing: bool = False
    """Only when the sequence shows no difference at all when it is played again."""
    older: bool = False
    """Only on a real server of the Kubernetes before the newest."""
    ignoring: str = ""
    """Not empty: what remains when this pattern is taken out of both texts must be the same."""

    def covers(
        self, step: Step, difference: tuple[str, Any, Any], theirs: Object, ours: Object
    ) -> bool:
        """Whether this row explains that difference."""
        path, real, mine = difference
        return (
            not self.passing
            and (not self.older or build.chosen() != build.KUBERNETES)
            and (not self.verbs or step.verb in self.verbs)
            and (not self.kinds or step.kind in self.kinds)
            and re.search(self.path, path) is not None
            and re.search(self.real, repr(real)) is not None
            and re.search(self.mine, repr(mine)) is not None
            and (not self.in_bookmark or _is_in_bookmark(path, theirs))
            and (not self.shows or re.search(self.shows, repr(theirs["body"])) is not None)
            and (not self.nameless or _is_nameless(theirs))
            and (not self.message or re.search(self.message, _message(theirs)) is not None)
            and (not self.mine_message or re.search(self.mine_message, _message(ours)) is not None)
            and (
                not self.ignoring
                or re.sub(self.ignoring, "", str(real)) == re.sub(self.ignoring, "", str(mine))
            )
        )


def _message(theirs: Object) -> str:
    body = theirs["body"]
    return str(body.get("message", "")) if isinstance(body, dict) else ""


def _is_in_bookmark(path: str, theirs: Object) -> bool:
    match = re.match(
        r"body\[(\d+)\]\.object\.(?!metadata\.(resourceVersion|annotations\.k8s))", path
    )
    return match is not None and theirs["body"][int(match[1])].get("type") == "BOOKMARK"


def _is_nameless(theirs: Object) -> bool:
    body = theirs["body"]
    return (
        isinstance(body, dict)
        and body.get("kind") != "Status"
        and "name" not in (body.get("metadata") or {})
    )


def is_passing(paths: Iterable[str]) -> bool:
    """Whether all these paths may differ in one playing of a sequence, if they do not in the
    next.
    """
    rows = [row for row in ROWS if row.passing]
    return all(any(re.search(row.path, path) is not None for row in rows) for path in paths)


NATIVES = frozenset(kind.plural for kind in (*WORKLOADS, *CORE)) | {"customresourcedefinitions"}

ROWS: tuple[Row, ...] = (
    Row(
        "maxUnavailable of StatefulSets",
        "Kubernetes 1.37 keeps the field and sets it to 1 by default, 1.36 drops it.",
        older=True,
        kinds=frozenset({"statefulsets"}),
        path=r"rollingUpdate\.(f:)?maxUnavailable$",
        real="nothing",
    ),
    Row(
        "column descriptions",
        (
            "Descriptions of a native kind's table columns are shown by no client; they would "
            "double the tables' code."
        ),
        path=r"columnDefinitions\[\d+\]\.description$",
    ),
    Row(
        "no controller manager",
        (
            "The real server runs without one, so its ServiceAccount admission is off; ours "
            "names the default account."
        ),
        kinds=frozenset({"pods"}),
        path=r"(spec\.serviceAccount(Name)?|spec)$",
        real="nothing",
        mine="default",
    ),
    Row(
        "bookmark bodies",
        (
            "A bookmark of a native kind carries the empty object of Go's type. Clients read its "
            "version only."
        ),
        verbs=frozenset({"watch"}),
        in_bookmark=True,
    ),
    Row(
        "undecodable patches",
        (
            "A patch that cannot be decoded is quoted with what it made, in the order of Go's "
            "structs, and in Go's words."
        ),
        path=r"^body\.(details\.causes\[0\]\.)?message$",
        real="Invalid value: ",
        mine="Invalid value: ",
        message=r'^ "" is invalid: patch: ',
    ),
    Row(
        "echoed objects",
        (
            "An object that a message quotes is printed with all fields of Go's struct, by their "
            "names in Go."
        ),
        path=r"message$",
        real=r"Invalid value: [\[{]",
        ignoring=r"Invalid value: [\[{].*[\]}]: ",
    ),
    Row(
        "several causes",
        "Both refuse a native object as invalid. A real server stops after its strategy's or "
        "after metadata's "
        "complaints by kind, and checks corners of pods that nobody here uses; which causes "
        "it lists is no contract.",
        kinds=NATIVES,
        path=r"^body\.(details\.causes.*|message)$",
        real=".",
        message=" is invalid: ",
        mine_message=" is invalid: ",
    ),
    Row(
        "version of a trial",
        (
            "A replacement that would create, and is only tried, is answered with the version "
            "that its body asked for."
        ),
        verbs=frozenset({"replace", "status", "create", "apply"}),
        path=r"^body\.metadata\.resourceVersion$",
        real=r"version-\d",
        mine="nothing",
    ),
    Row(
        "complaints about an applied document",
        (
            "Both refuse a document that does not fit its schema; of faults at several depths a "
            "real server lists some."
        ),
        verbs=frozenset({"apply", "status"}),
        path=r"^body\.message$",
        real="^'failed to create typed patch object",
        mine="^'failed to create typed patch object",
    ),
    Row(
        "null after the last item",
        (
            "A real server refuses the null that its own removal of the last item of a list "
            "leaves; ours drops it."
        ),
        verbs=frozenset({"apply"}),
        path="^(body|status|headers)",
        message=r'Invalid value: "null"',
        ends=True,
    ),
    Row(
        "a scale to what is",
        "A scale that changes nothing makes a real server forget that who set the replicas "
        "did so by the object; "
        "whoever scales next is not recorded then. Ours writes nothing.",
        verbs=frozenset({"scale"}),
        path=r"^body\.metadata\.resourceVersion$",
        ends=True,
    ),
    Row(
        "trial of a last deletion",
        "When a trial takes away the finalizer that holds an object, a real server answers "
        "with the empty object of "
        "Go's type. Ours answers as to the deletion itself.",
        verbs=frozenset({"delete"}),
        path="^body",
        nameless=True,
    ),
    Row(
        "applied empty metadata",
        "A real server stores the empty map that was applied to a custom resource's metadata "
        "but decodes the object "
        "without it, so that every write to it counts as a change, even an empty patch. Ours "
        "stores what it shows.",
        kinds=frozenset(kind.plural for kind in CUSTOM),
        path=r"metadata\.resourceVersion$",
        shows=r"'f:(annotations|labels|finalizers|ownerReferences)': \{\}",
        ends=True,
    ),
    Row(
        "turn of a second",
        "Times of managedFields are whole seconds, so that a write that changes nothing but "
        "its time counts only when "
        "a second has turned since the last one, which it does for one server before the other.",
        path=r"(resourceVersion|managedFields)$",
        passing=True,
    ),
    Row(
        "definitions are established at once",
        (
            "A real server's controllers accept names later; ours are part of the write, so that "
            "tests need not wait."
        ),
        kinds=frozenset({"customresourcedefinitions"}),
        path=r"(^|\.)status(\.|$)",
    ),
    Row(
        "generation of daemon sets in tables",
        (
            "The annotation is made by a conversion that table rows of a real server do not go "
            "through."
        ),
        kinds=frozenset({"daemonsets"}),
        path=r"metadata\.annotations",
        mine=r"deprecated.daemonset.template.generation|'\d+'",
        real="nothing",
    ),
)

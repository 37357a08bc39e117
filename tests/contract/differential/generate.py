"""Draws a sequence of requests from a seed.

The sequence does not depend on answers (see `steps`), so that both servers get the same and any
part of it may be left out when a failing one is made shorter. A few kinds and names per sequence,
so that its requests meet each other.
"""

import random
from typing import Any

from tests.contract.differential import variations
from tests.contract.differential.corekinds import CORE
from tests.contract.differential.customkinds import CUSTOM, DEFINITIONS
from tests.contract.differential.kinds import Kind, Object
from tests.contract.differential.steps import Step
from tests.contract.differential.workloadkinds import WORKLOADS
from tests.contract.speaking import TABLE

KINDS = (*WORKLOADS, *CORE, *CUSTOM, DEFINITIONS)
STEPS = 24
LABELS = {"part": "difference", "seq": "@ns"}
_WEIGHTS = {
    "create": 5,
    "replace": 4,
    "merge": 3,
    "json": 3,
    "strategic": 3,
    "apply": 6,
    "status": 3,
    "scale": 2,
    "delete": 3,
    "deletecollection": 1,
    "get": 1,
    "list": 2,
    "chunk": 1,
    "watch": 2,
    "table": 1,
}
VERBS = tuple(_WEIGHTS)


def sequence(seed: int) -> list[Step]:
    """At least 20 requests: a creation of each kind first, then whatever comes."""
    rng = random.Random(seed)
    drawn = rng.sample([kind for kind in KINDS if kind is not DEFINITIONS], 3)
    # Every kind in turn, whatever the rest of the draw.
    first = KINDS[seed % len(KINDS)]
    chosen = [first, *(kind for kind in drawn if kind is not first)][:3]
    drawing = Drawing(rng)
    for kind in chosen:
        drawing.create(kind, rng.choice("ab"), variations.create_query(rng, calm=True), calm=True)
    while len(drawing.steps) < STEPS:
        drawing.any(rng.choice([chosen[0], *chosen]))
    return drawing.steps


def has(kind: Kind, verb: str) -> bool:
    """Whether sequences use this verb on this kind."""
    if verb == "status":
        return kind.status is not None
    if kind is DEFINITIONS and verb in {"chunk", "watch"}:
        return False
    if verb == "chunk":
        # Whether more follows a chunk depends on all objects of the kind, and only namespaces are
        # our own.
        return kind.namespaced
    return kind.scale if verb == "scale" else True


class Drawing:
    """A sequence being drawn."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.steps: list[Step] = []
        self._generated = 0

    def any(self, kind: Kind) -> None:
        """One more request, or a few that belong together."""
        verbs = [verb for verb in VERBS if has(kind, verb)]
        verb = self.rng.choices(verbs, [_WEIGHTS[verb] for verb in verbs])[0]
        name = self.rng.choice("aab" if self.rng.random() < 0.9 else "c")
        {"create": self._create}.get(verb, getattr(self, f"_{verb}"))(kind, name)

    def create(self, kind: Kind, name: str, query: Object, *, calm: bool = False) -> None:
        """A creation; `calm` ones are valid but for what the kind's own body draws."""
        body = self._body(kind, name)
        if not calm:
            variations.vary(self.rng, body, kind, 0.5)
            variations.vary_identity(self.rng, body, kind)
        self._add("create", kind, "POST", kind.collection, name, query, body)

    def _create(self, kind: Kind, name: str) -> None:
        # One at most, since the order of two drawn names differs.
        if kind is not DEFINITIONS and not self._generated and self.rng.random() < 0.2:
            self._generated += 1
            body = self._body(kind, name)
            del body["metadata"]["name"]
            prefix = "{ns}-gen-" if not kind.namespaced else "gen-"
            body["metadata"]["generateName"] = self.rng.choice([prefix, prefix, "Bad_"])
            query = variations.create_query(self.rng)
            self._add(
                "create", kind, "POST", kind.collection, f"generated-{self._generated}", query, body
            )
            return
        self.create(kind, name, variations.create_query(self.rng))

    def _replace(self, kind: Kind, name: str) -> None:
        key = f"{kind.plural}/{name}"
        if self.rng.random() < 0.7:
            changes: list[list[Any]] = variations.changes(self.rng, kind)
            stale = self.rng.random()
            if stale < 0.15:
                changes.append(["metadata.resourceVersion", f"@old {key}"])
            elif stale < 0.3:
                changes.append(["metadata.resourceVersion", "@drop"])
            elif stale < 0.35:
                changes.append(["metadata.uid", "00000000-0000-4000-8000-000000000000"])
            body: Any = {"@live": key, "@with": changes}
        else:
            body = self._body(kind, name)
            variations.vary(self.rng, body, kind, 0.3)
            if self.rng.random() < 0.7:
                body["metadata"]["resourceVersion"] = f"@rv {key}"
        self._on("replace", kind, "PUT", name, variations.update_query(self.rng), body)

    def _merge(self, kind: Kind, name: str) -> None:
        body = variations.merge_patch(self.rng, kind)
        content_type = "application/merge-patch+json"
        self._on(
            "merge", kind, "PATCH", name, variations.update_query(self.rng), body, content_type
        )

    def _json(self, kind: Kind, name: str) -> None:
        body = variations.json_patch(self.rng, kind)
        content_type = "application/json-patch+json"
        self._on("json", kind, "PATCH", name, variations.update_query(self.rng), body, content_type)

    def _strategic(self, kind: Kind, name: str) -> None:
        body = variations.strategic_patch(self.rng, kind)
        content_type = "application/strategic-merge-patch+json"
        self._on(
            "strategic", kind, "PATCH", name, variations.update_query(self.rng), body, content_type
        )

    def _apply(self, kind: Kind, name: str) -> None:
        body = self._body(kind, name)
        variations.vary(self.rng, body, kind, 0.25)
        variations.vary_identity(self.rng, body, kind, 0.1)
        body = variations.without_nulls(body)
        content_type = "application/apply-patch+yaml"
        self._on("apply", kind, "PATCH", name, variations.apply_query(self.rng), body, content_type)

    def _status(self, kind: Kind, name: str) -> None:
        key, action = f"{kind.plural}/{name}", self.rng.random()
        changes = variations.status_changes(self.rng, kind)
        if action < 0.15:
            self._on("status", kind, "GET", name, {}, sub="/status")
        elif action < 0.5:
            body: Any = {"@live": key, "@with": changes}
            self._on(
                "status", kind, "PUT", name, variations.update_query(self.rng), body, sub="/status"
            )
        elif action < 0.8 or kind.plural == "services":
            body = variations.tree(changes)
            media = "application/merge-patch+json"
            self._on(
                "status",
                kind,
                "PATCH",
                name,
                variations.update_query(self.rng),
                body,
                media,
                sub="/status",
            )
        else:
            body = {"apiVersion": kind.api_version, "kind": kind.kind, **variations.tree(changes)}
            body.setdefault("metadata", {})["name"] = self._name(kind, name)
            media = "application/apply-patch+yaml"
            self._on(
                "status",
                kind,
                "PATCH",
                name,
                variations.apply_query(self.rng),
                body,
                media,
                sub="/status",
            )

    def _scale(self, kind: Kind, name: str) -> None:
        action, replicas = self.rng.random(), self.rng.choice([1, 2, 3, -1, "x"])
        if action < 0.3:
            self._on("scale", kind, "GET", name, {}, sub="/scale")
            return
        query = variations.update_query(self.rng)
        if action < 0.6:
            metadata = {"name": self._name(kind, name)} if self.rng.random() < 0.9 else {}
            body = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": metadata,
                "spec": {"replicas": replicas},
            }
            if self.rng.random() < 0.2:
                metadata["resourceVersion"] = f"@old {kind.plural}/{name}"
            self._on("scale", kind, "PUT", name, query, body, sub="/scale")
        else:
            media = "application/merge-patch+json"
            self._on(
                "scale",
                kind,
                "PATCH",
                name,
                query,
                {"spec": {"replicas": replicas}},
                media,
                sub="/scale",
            )

    def _delete(self, kind: Kind, name: str) -> None:
        query, body = variations.delete_options(self.rng, f"{kind.plural}/{name}")
        self._on("delete", kind, "DELETE", name, query, body)

    def _deletecollection(self, kind: Kind, name: str) -> None:
        query, body = variations.delete_options(self.rng, f"{kind.plural}/{name}")
        query["labelSelector"] = self.rng.choice(
            ["seq={ns}", "seq={ns},app=a", "seq={ns},part notin (difference)"]
        )
        self._add("deletecollection", kind, "DELETE", kind.collection, "", query, body)

    def _get(self, kind: Kind, name: str) -> None:
        self._on("get", kind, "GET", name, self.rng.choice([{}, {}, {"resourceVersion": "0"}]))

    def _list(self, kind: Kind, name: str) -> None:
        query = variations.list_query(self.rng, self._name(kind, name), f"{kind.plural}/{name}")
        self._add("list", kind, "GET", kind.collection, "", query)

    def _chunk(self, kind: Kind, name: str) -> None:
        """A few objects, and a list of them in pieces with a write in between."""
        for extra in ("k", "l", "m"):
            self._add(
                "create",
                kind,
                "POST",
                kind.collection,
                extra,
                {},
                self._body(kind, extra, plain=True),
            )
        query = {"labelSelector": "seq={ns}", "limit": str(self.rng.choice([1, 2]))}
        if kind.namespaced and self.rng.random() < 0.5:
            del query["labelSelector"]
        self._add("chunk", kind, "GET", kind.collection, "", query)
        if self.rng.random() < 0.5:
            self._on("delete", kind, "DELETE", "m", {})
        for _ in range(self.rng.randint(1, 3)):
            query = {**query, "continue": f"@token {len(self.steps) - 1}"}
            query.pop("resourceVersion", None)
            self._add("chunk", kind, "GET", kind.collection, "", query)

    def _watch(self, kind: Kind, name: str) -> None:
        """Reads back what happened, up to an object made for the purpose."""
        last = f"end-{len(self.steps)}"
        self._add(
            "create", kind, "POST", kind.collection, last, {}, self._body(kind, last, plain=True)
        )
        query = variations.watch_query(self.rng)
        accept = TABLE if self.rng.random() < 0.15 else "application/json"
        number = len(self.steps)
        self.steps.append(
            Step(
                number,
                "watch",
                kind.plural,
                "GET",
                kind.collection,
                query=tuple({"watch": "true", **query}.items()),
                accept=accept,
                sentinel=self._name(kind, last),
            )
        )

    def _table(self, kind: Kind, name: str) -> None:
        accept = TABLE + (",application/json" if self.rng.random() < 0.5 else "")
        query = (
            {"includeObject": self.rng.choice(["None", "Metadata", "Object"])}
            if self.rng.random() < 0.4
            else {}
        )
        if self.rng.random() < 0.5:
            self._on("table", kind, "GET", name, query, accept=accept)
        else:
            query["labelSelector"] = "seq={ns}"
            self._add("table", kind, "GET", kind.collection, "", query, accept=accept)

    def _name(self, kind: Kind, name: str) -> str:
        if kind is DEFINITIONS:
            return "gadgets.{ns}.example"
        return name if kind.namespaced else f"{{ns}}-{name}"

    def _body(self, kind: Kind, name: str, *, plain: bool = False) -> Object:
        body = kind.plain() if plain else kind.body(self.rng)
        labels = dict(LABELS)
        if self.rng.random() < 0.5:
            labels["app"] = self.rng.choice("ab")
        metadata: Object = {"name": self._name(kind, name), "labels": labels}
        if not plain:
            variations.decorate(self.rng, metadata)
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}

    def _on(  # noqa: PLR0917 - the parts of a request in their order
        self,
        verb: str,
        kind: Kind,
        method: str,
        name: str,
        query: Object,
        body: Any = None,
        content_type: str = "application/json",
        *,
        sub: str = "",
        accept: str = "application/json",
    ) -> None:
        path = f"{kind.collection}/{self._name(kind, name)}{sub}"
        # A Scale is another object with the same name.
        seen = "" if sub == "/scale" else name
        self._add(verb, kind, method, path, seen, query, body, content_type, accept=accept)

    def _add(  # noqa: PLR0917 - as `_on`
        self,
        verb: str,
        kind: Kind,
        method: str,
        path: str,
        name: str,
        query: Object,
        body: Any = None,
        content_type: str = "application/json",
        *,
        accept: str = "application/json",
    ) -> None:
        key = f"{kind.plural}/{name}" if name else ""
        if kind is DEFINITIONS and method != "GET":
            # Each new kind costs a real server a second, so that these are only tried.
            query = {**query, "dryRun": "All"}
        asked = tuple((each, str(value)) for each, value in query.items())
        number = len(self.steps)
        self.steps.append(
            Step(number, verb, kind.plural, method, path, key, asked, body, content_type, accept)
        )

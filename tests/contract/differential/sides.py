"""One of the two servers, and what it said during a sequence: sends steps and remembers what later
steps refer to.
"""

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from federator.kube.wire.transport import Transport
from tests.contract.differential.kinds import Object, put
from tests.contract.differential.steps import Step
from tests.contract.speaking import Speaker

_REFERENCE = re.compile(r"@(rv|old|uid|token|start)(?: (\S+))?")
_PATH_NAME = re.compile(r"@name\(([^)]*)\)")
_SILENCE_S = 5.0
_AFTER_S = 0.25
_INITIAL_END = "k8s.io/initial-events-end"
_AGENT = {"User-Agent": "difference/1"}
NO_UID = "00000000-0000-4000-8000-00000000dead"


@dataclass(frozen=True, slots=True)
class Said:
    """What a server answered to one step."""

    step: Step
    status: int
    headers: Object
    body: Any
    """JSON, or text; for a watch the list of its events."""


@dataclass(slots=True)
class Side:
    """One server and one sequence in a namespace of its own."""

    transport: Transport
    namespace: str
    said: list[Said] = field(default_factory=list)
    _live: dict[str, Object] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)
    _tokens: dict[int, str] = field(default_factory=dict)
    _start: str = ""

    async def play(self, steps: Sequence[Step]) -> list[Said]:
        """Makes the namespace, sends every step and returns what was said."""
        speaker = Speaker(self.transport, self.namespace)
        labels = {"seq": self.namespace}
        made = await speaker.post(
            "/api/v1/namespaces",
            {"metadata": {"name": self.namespace, "labels": labels}},
            headers=_AGENT,
        )
        self._start = made.object(201)["metadata"]["resourceVersion"]
        for step in steps:
            said = await (
                self._watch(speaker, step) if step.sentinel else self._send(speaker, step)
            )
            self.said.append(said)
        return self.said

    async def _send(self, speaker: Speaker, step: Step) -> Said:
        body = step.body if isinstance(step.body, bytes) else self._filled(step.body)
        query = {name: self._text(value) for name, value in step.query}
        if (
            query.get("resourceVersion") == "0"
            or query.get("resourceVersionMatch") == "NotOlderThan"
        ):
            # An older version will do for these; a consistent list first lets the real server's
            # cache catch up.
            await speaker.get(self._text(step.path), labelSelector=f"seq={self.namespace}")
        answer = await speaker.call(
            step.method,
            self._text(step.path),
            body,
            content_type=step.content_type,
            accept=step.accept,
            headers=_AGENT,
            **query,
        )
        try:
            found: Any = json.loads(answer.body)
        except ValueError:
            found = answer.body.decode(errors="replace")
        headers = {
            name: answer.headers[name]
            for name in ("content-type", "warning")
            if name in answer.headers
        }
        self._remember(step, answer.status, found, is_dry=("dryRun", "All") in step.query)
        return Said(step, answer.status, headers, found)

    async def _watch(self, speaker: Speaker, step: Step) -> Said:
        query = {name: self._text(value) for name, value in step.query if name != "watch"}
        initial = query.get("resourceVersion", "") in {"", "0"}
        last, events = self._text(step.sentinel), []
        async with speaker.watching(self._text(step.path), accept=step.accept, **query) as watch:
            if watch.status != 200:
                answer = await speaker.get(
                    self._text(step.path), accept=step.accept, watch="true", **query
                )
                return Said(step, watch.status, {}, answer.json)
            wait_s = _SILENCE_S
            while True:
                try:
                    event = await watch.next(wait_s)
                except TimeoutError:
                    if wait_s == _SILENCE_S:
                        events.append({"type": "SILENCE"})
                    break
                if event is None:
                    events.append({"type": "END"})
                    break
                metadata = _metadata(event["object"])
                if event["type"] == "BOOKMARK" and _INITIAL_END not in metadata.get(
                    "annotations", {}
                ):
                    continue
                events.append(event)
                if event["type"] in {"ERROR", "BOOKMARK"}:
                    break
                if metadata.get("name") == last and "sendInitialEvents" not in query:
                    if not initial:
                        break
                    wait_s = _AFTER_S
        return Said(step, watch.status, {}, events)

    def _remember(self, step: Step, status: int, found: Any, *, is_dry: bool) -> None:
        if not isinstance(found, dict):
            return
        metadata = found.get("metadata") or {}
        if metadata.get("continue"):
            self._tokens[step.number] = metadata["continue"]
        if status >= 300 or is_dry or not step.key or "resourceVersion" not in metadata:
            return
        self._live[step.key] = found
        self._first.setdefault(step.key, metadata["resourceVersion"])

    def _text(self, value: str) -> str:
        value = value.replace("{ns}", self.namespace).replace("@ns", self.namespace)
        value = _PATH_NAME.sub(
            lambda match: str(self._meta(match[1]).get("name", "unknown")), value
        )
        match = _REFERENCE.fullmatch(value)
        return value if match is None else self._referred(match[1], match[2])

    def _referred(self, what: str, key: str) -> str:
        if what == "start":
            return self._start
        if what == "token":
            return self._tokens.get(int(key), "eHg")
        if what == "old":
            return self._first.get(key, self._start)
        if what == "uid":
            return str(self._meta(key).get("uid", NO_UID))
        return str(self._meta(key).get("resourceVersion", self._start))

    def _meta(self, key: str) -> Object:
        found: Object = self._live.get(key, {}).get("metadata", {})
        return found

    def _filled(self, tree: Any) -> Any:
        if isinstance(tree, str):
            return self._text(tree)
        if isinstance(tree, list):
            return [self._filled(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if "@live" not in tree:
            return {self._text(name): self._filled(value) for name, value in tree.items()}
        key = tree["@live"]
        body = copy.deepcopy(self._live.get(key, {"metadata": {"name": key.rpartition("/")[2]}}))
        for path, value in tree["@with"]:
            put(body, path, self._filled(value))
        return _in_order(body)


def _in_order(tree: Any) -> Any:
    """The same with sorted keys: of several faults a server tells the first that it reads."""
    if isinstance(tree, list):
        return [_in_order(item) for item in tree]
    return {key: _in_order(tree[key]) for key in sorted(tree)} if isinstance(tree, dict) else tree


def _metadata(shown: Object) -> Object:
    """The metadata of a watched object; of the only row's object for Tables."""
    if shown.get("kind") == "Table":
        rows = shown.get("rows") or [{}]
        shown = rows[0].get("object") or {}
    found: Object = shown.get("metadata") or {}
    return found

"""From a request to an answer of the gateway. Knows no socket: `server` puts it behind one.

The order is the point: the caller's identity, then the caller's rate; only then are the query
string and the body read. A body is parsed when the submission has a turn among all. Whatever is
refused is a problem (RFC 9457) and in the audit.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from federator.api import submissions
from federator.api.submissions import Record
from federator.gateway import views
from federator.gateway.api import models, openapi, problems, routes
from federator.gateway.api.models import Submission, SubmissionList
from federator.gateway.api.problems import Problem
from federator.gateway.api.routes import Route
from federator.gateway.audit import Audit
from federator.gateway.callers import Caller, Callers
from federator.gateway.limits import Buckets, Turns
from federator.gateway.options import GatewayOptions
from federator.gateway.platforms import table
from federator.gateway.platforms.events import SubmissionEvent
from federator.gateway.submitting import Done, Obj, Submitter, check_names
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing
from federator.model import plaintext

log = logging.getLogger(__name__)

PATH_MAX: Final = 1024
POLL_S: Final = 2.0
"""An event stream looks at the objects so often."""
BEAT_S: Final = 15.0
"""A stream without an event sends a comment so often, so that proxies keep it open."""
STREAM_MAX_S: Final = 600.0
REQUESTS: Final = "federator_gateway_requests_total"
Given = Mapping[str, str]
Handler = Callable[[Caller, Incoming, Given, Given], Awaitable[Outgoing]]


class Port:
    """Answers for one gateway. `ready`: why it is not ready, "" when it is."""

    def __init__(
        self,
        callers: Callers,
        submitter: Submitter,
        audit: Audit,
        *,
        options: GatewayOptions,
        monotonic: Callable[[], float],
        ready: Callable[[], str] = lambda: "",
        metrics: Metrics | None = None,
    ) -> None:
        self._callers = callers
        self._submitter = submitter
        self._audit = audit
        self._buckets = Buckets(options, monotonic)
        self._turns = Turns(options)
        self._streams = asyncio.Semaphore(options.streams)
        self._monotonic = monotonic
        self._ready = ready
        self._metrics = metrics
        self._handlers: Mapping[str, Handler] = {
            "submit": self._submit,
            "list": self._list,
            "get": self._get,
            "events": self._events,
            "logs": self._logs,
            "cancel": self._cancel,
        }

    async def answer(self, request: Incoming) -> Outgoing:
        """Total: whatever goes wrong is an answer, and one that names nothing of what went wrong
        inside."""
        if request.method == "GET" and (still := self._static(request.path)) is not None:
            return still
        what, caller = "other", None
        try:
            if len(request.path) > PATH_MAX:
                raise Problem(400, "InvalidRequest", "The path is too long.")
            caller = await self._callers.authenticate(request)
            self._buckets.take(caller.name)
            route, given = routes.matching(request.method, request.path)
            what = route.id
            sent = await self._answered(route, caller, request, given)
        except Problem as problem:
            sent = await self._refused(problem, what, caller, request)
        except BodyRefused as bad:
            status = 413 if "more than" in str(bad) else 400
            unread = Problem(status, "InvalidRequest", f"{str(bad)[:1].upper()}{str(bad)[1:]}.")
            sent = await self._refused(unread, what, caller, request)
        except Exception:  # a bug of ours must not end the gateway, nor show what it was about
            log.exception("the gateway failed at %s", what)
            failed = Problem(500, "InternalError", "The gateway failed; its log says why.")
            sent = problems.answer(failed, request.path)
        if self._metrics is not None:
            self._metrics.child(REQUESTS, what, str(sent.status)).inc()
        return sent

    def _static(self, path: str) -> Outgoing | None:
        if path == "/openapi.json":
            return Outgoing(200, openapi.encoded(table.PLATFORMS.described))
        if path == "/healthz":
            return Outgoing(200, b"ok\n", "text/plain; charset=utf-8")
        if path == "/readyz":
            why = self._ready()
            body = f"{why or 'ok'}\n".encode()
            return Outgoing(503 if why else 200, body, "text/plain; charset=utf-8")
        return None

    async def _answered(
        self, route: Route, caller: Caller, request: Incoming, given: Given
    ) -> Outgoing:
        if route.request is None and request.has_body:
            raise Problem(400, "InvalidRequest", f"{route.method} has no body here.")
        parameters = routes.parameters(route, request.query)
        check_names(given["namespace"], given["name"])
        if "id" in given and re.fullmatch(models.ID_PATTERN, given["id"]) is None:
            raise _no_submission()
        return await self._handlers[route.id](caller, request, given, parameters)

    async def _refused(
        self, problem: Problem, what: str, caller: Caller | None, request: Incoming
    ) -> Outgoing:
        if caller is not None and what in ("submit", "cancel"):
            try:
                await self._audit.write(
                    "refused",
                    request=what,
                    user=caller.name,
                    path=request.path,
                    status=problem.status,
                    why=problem.title,
                    detail=problem.detail,
                )
            except OSError:
                log.exception("the audit cannot be written")
        return problems.answer(problem, request.path)

    # -- submit ---------------------------------------------------------------

    async def _submit(self, caller: Caller, request: Incoming, given: Given, _: Given) -> Outgoing:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or request.read_body is None:
            raise Problem(400, "InvalidRequest", "The body must be application/json.")
        # Neither a body that arrives slowly nor a search that others share holds a turn.
        body = await request.read_body(models.BODY_MAX)
        async with self._turns.place(caller.name) as place:
            asked = models.parsed(body)
            facts = {
                "user": caller.name,
                "impersonated": caller.impersonated,
                "namespace": given["namespace"],
                "workflow": given["name"],
                "artifact": asked.artifact,
                "version": asked.version,
            }
            if not asked.dry_run:
                await self._write_audit("submitting", **facts)
            about = caller, given["namespace"], given["name"], asked
            earlier = await self._submitter.earlier(*about)
            done = earlier.done
            if done is None:
                async with place.turn():
                    done = await self._submitter.submit(*about, earlier)
            if not asked.dry_run:
                outcome = "created" if done.created else "repeated"
                await self._write_audit(outcome, **facts, **_outcome(done))
        shown = views.submission(
            given["namespace"],
            done.record,
            done.objects,
            verdict=done.verdict,
            warnings=list(done.warnings),
        )
        headers = {"Location": f"{request.path}/{done.record.id}"} if not asked.dry_run else {}
        return _document(shown, 201 if done.created else 200, headers)

    async def _write_audit(self, what: str, **entry: Any) -> None:
        """Raises `Problem`: what cannot be written down is not done."""
        try:
            await self._audit.write(what, **entry)
        except OSError:
            log.exception("the audit cannot be written")
            sentence = "The gateway cannot write its audit, so it takes no submissions."
            raise Problem(503, "AuditUnavailable", sentence, retry_after_s=30) from None

    # -- what is there --------------------------------------------------------

    async def _list(self, caller: Caller, _: Incoming, given: Given, parameters: Given) -> Outgoing:
        namespace = given["namespace"]
        objs = await self._submitter.platforms.listed(caller, namespace, given["name"])
        listed = [
            each
            for each in views.listed(namespace, given["name"], objs)
            if parameters.get("state", each.state) == each.state
            and parameters.get("user", each.submitted_by) == each.submitted_by
        ]
        if after := parameters.get("after"):
            ids = [each.id for each in listed]
            listed = listed[ids.index(after) + 1 :] if after in ids else []
        limit = int(parameters.get("limit", routes.LIMIT))
        page = listed[:limit]
        more = page[-1].id if len(listed) > limit else ""
        return _document(SubmissionList(items=page, next=more))

    async def _get(self, caller: Caller, _: Incoming, given: Given, __: Given) -> Outgoing:
        return _document(await self._shown(caller, given))

    async def _shown(self, caller: Caller, given: Given) -> Submission:
        """Raises `Problem`."""
        record, objs = await self._read(caller, given)
        shown = views.submission(given["namespace"], record, objs)
        waiting = {each.name for each in shown.objects if each.state == "Queued"}
        queued = [obj for obj in objs if obj["metadata"]["name"] in waiting]
        if queued and shown.state != views.SUPERSEDED:
            try:
                platform = self._submitter.platforms.of(queued[0])
                verdict = await platform.verdict(given["namespace"], queued)
                shown = views.with_queue(shown, verdict)
            except Problem as problem:  # the status counts without it
                log.info("no place in the queue: %s", problem.detail)
        return shown

    async def _read(self, caller: Caller, given: Given) -> tuple[Record, list[Obj]]:
        """Raises `Problem` 404."""
        platforms = self._submitter.platforms
        objs = await platforms.find(caller, given["namespace"], given["name"], given["id"])
        record = submissions.of_submission(objs, given["id"])
        if record is None:
            raise _no_submission()
        return record, objs

    async def _events(self, caller: Caller, _: Incoming, given: Given, __: Given) -> Outgoing:
        first = await self._shown(caller, given)
        if self._streams.locked():
            raise Problem(503, "Overloaded", "Too many event streams are open.", retry_after_s=30)
        stream = self._followed(caller, given, first)
        return Outgoing(200, b"", "text/event-stream; charset=utf-8", stream=stream)

    async def _followed(
        self, caller: Caller, given: Given, shown: Submission
    ) -> AsyncGenerator[bytes, None]:
        async with self._streams:
            begun = sent = self._monotonic()
            yield _event("submission", shown)
            while shown.state not in views.ENDED and self._monotonic() - begun < STREAM_MAX_S:
                await asyncio.sleep(POLL_S)
                try:
                    now = await self._shown(caller, given)
                except Problem as problem:
                    if problem.status == 404:
                        yield b"event: deleted\ndata: {}\n\n"
                        return
                    now = shown  # the host is away for a while
                if now != shown:
                    shown, sent = now, self._monotonic()
                    yield _event("submission", shown)
                elif self._monotonic() - sent >= BEAT_S:
                    sent = self._monotonic()
                    yield b": still there\n\n"
            if shown.state in views.ENDED:
                yield b"event: end\ndata: {}\n\n"

    async def _logs(self, caller: Caller, _: Incoming, given: Given, parameters: Given) -> Outgoing:
        objs = (await self._read(caller, given))[1]
        wanted = parameters.get("object", "")
        obj = next(
            (
                each
                for each in objs
                if table.PLATFORMS.kinds[each["kind"]].has_logs
                and wanted in ("", f"{each['kind']}/{each['metadata']['name']}")
            ),
            None,
        )
        if obj is None:
            raise Problem(
                404, "NotFound", f"The submission has no such object with pods: {wanted or 'any'}."
            )
        query = tuple((name, text) for name, text in parameters.items() if name != "object")
        return _document(await self._submitter.platforms.of(obj).logs(caller, obj, query))

    # -- cancel ---------------------------------------------------------------

    async def _cancel(self, caller: Caller, request: Incoming, given: Given, _: Given) -> Outgoing:
        record, objs = await self._read(caller, given)
        for obj in objs:
            if (newest := submissions.read(obj)[:1]) and newest[0].id != record.id:
                raise Problem(
                    409,
                    "Superseded",
                    f"A later submission ({newest[0].id}) has changed {_path(obj)}. Cancel that.",
                )
            if len(submissions.read(obj)) > 1:
                raise Problem(
                    409,
                    "NotCancellable",
                    f"{_path(obj)} ran before this submission, which has changed it. Submit an"
                    " earlier version, or undo it: federator rollout undo.",
                )
        facts = {
            "user": caller.name,
            "impersonated": caller.impersonated,
            "namespace": given["namespace"],
            "workflow": given["name"],
            "platform": views.platform_of(record),
            "submission": record.id,
        }
        await self._write_audit("cancelling", **facts)
        about = SubmissionEvent(
            "Cancelled", given["namespace"], record.workflow, record.version, caller.name
        )
        for obj in objs:
            platform = self._submitter.platforms.of(obj)
            if await platform.delete(caller, obj):
                platform.record_event(about, record.id, obj)
        await self._write_audit("cancelled", **facts)
        shown = views.submission(given["namespace"], record, objs)
        gone = [each.model_copy(update={"state": "Deleted"}) for each in shown.objects]
        return _document(shown.model_copy(update={"state": "Deleted", "objects": gone}))


def _no_submission() -> Problem:
    return Problem(404, "NotFound", "There is no such submission, or you may not see it.")


def _path(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind']} {plaintext.clipped(obj['metadata']['name'], 100)}"


def _outcome(done: Done) -> dict[str, Any]:
    """What the audit says of an acknowledged submission."""
    verdict = done.verdict.verdict if done.verdict is not None else ""
    return {
        "submission": done.record.id,
        "platform": views.platform_of(done.record),
        "digest": done.record.digest,
        "objects": list(done.record.objects),
        "verdict": verdict,
    }


def _document(
    shown: models.Shown, status: int = 200, headers: Mapping[str, str] | None = None
) -> Outgoing:
    return Outgoing(status, _encoded(shown), headers=headers or {})


def _encoded(shown: models.Shown) -> bytes:
    return msgspec.json.encode(shown.model_dump(mode="json", by_alias=True, exclude_none=True))


def _event(name: str, shown: models.Shown) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + _encoded(shown) + b"\n\n"

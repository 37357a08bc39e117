"""The one client: Kubernetes verbs on a Transport, for the host, members and the CLI alike.

It decodes, types errors, bounds bodies, gives every call a deadline, refreshes credentials once on
401, and tries reads again within a budget. It never repeats a write: after `errors.Unreachable` a
write's effect is unknown, and callers, being level-triggered, read and compute anew.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from federator.kube import errors
from federator.kube.wire import decode, discovery, paths
from federator.kube.wire.exchange import (
    BODY_LIMIT,
    OBJECT_LIMIT,
    SMALL_LIMIT,
    WORD_LIMIT,
    Call,
    Exchange,
    Query,
    RequestMeter,
)
from federator.kube.wire.transport import Transport
from federator.kube.wire.watch_stream import WatchStream
from federator.model.steps import ObjectRef

T = TypeVar("T")

PAGE_SIZE = 500
"""Objects asked for per page of a list."""
OBJECTS_MAX = 500_000
"""More objects of one kind are not read from one cluster: each page is bounded, and without this
the list of a member that never comes to an end would take all memory. Kubernetes itself is meant
for 150,000 pods a cluster."""
LIST_S = 900.0
"""A list of many pages ends within so long, in seconds, however it trickles."""
PAGES_FREE = 64
"""So many pages may come as they like; of more, each has a sixteenth of what was asked for on
average. A server that sends nothing but the way to the next page would keep a process busy without
end."""
BOOKMARK_S = 60.0
"""How often a real API server sends a bookmark on a watch, about, in seconds."""
SILENCE_S = 3 * BOOKMARK_S
"""A watch that says nothing for this long is dropped (F15)."""

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
"""What is accepted as an answer where an object's metadata are enough."""
PATCH_TYPES: Mapping[str, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "strategic": "application/strategic-merge-patch+json",
}


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole collection as of `resource_version`."""

    items: tuple[dict[str, Any], ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Event:
    """A decoded watch event: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: dict[str, Any]


FIELD_MANAGER = "federator"
"""The default field manager in managedFields."""
UID_MAX = 64
"""Characters of a uid; those of Kubernetes have 36."""


class Client:
    """Speaks to one API server. `cluster` names it in metrics and messages; `rng` draws request ids
    and jitter."""

    def __init__(
        self,
        transport: Transport,
        cluster: str = "host",
        *,
        field_manager: str = FIELD_MANAGER,
        metrics: RequestMeter | None = None,
        rng: random.Random | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self.transport = transport
        self.cluster = cluster
        self.field_manager = field_manager
        self.timeout_s = timeout_s
        """Deadline of a call that names none, in seconds, tries and waits included."""
        self._rng = rng if rng is not None else random.Random(cluster)
        self._metrics = metrics
        self._exchange = Exchange(transport, cluster, rng=self._rng, metrics=metrics)

    def on(self, transport: Transport) -> "Client":
        """The same client on another transport, such as a decorator of its own."""
        return Client(
            transport,
            self.cluster,
            field_manager=self.field_manager,
            metrics=self._metrics,
            rng=self._rng,
            timeout_s=self.timeout_s,
        )

    # -- reads ----------------------------------------------------------------

    async def get(
        self,
        ref: ObjectRef,
        *,
        subresource: str = "",
        timeout_s: float | None = None,
        body_limit: int = OBJECT_LIMIT,
    ) -> dict[str, Any]:
        """The object. Raises `errors.NotFound` and the other ApiErrors; `errors.Malformed` beyond
        `body_limit`."""
        path = paths.single(ref, subresource)
        call = self._read("get", ref.plural, path, timeout_s=timeout_s, body_limit=body_limit)
        return decode.single(await self._exchange.send(call), ref.name, self._exchange.what(call))

    async def find(
        self, ref: ObjectRef, *, timeout_s: float | None = None
    ) -> dict[str, Any] | None:
        """The object, None where there is none: an answer that names no object (`errors.NotServed`)
        is raised, since it proves no object's absence."""
        try:
            return await self.get(ref, timeout_s=timeout_s)
        except errors.NotServed:
            raise
        except errors.NotFound:
            return None

    async def list(
        self,
        api_version: str,
        plural: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
    ) -> Listing:
        """Everything there is, read consistently in pages; begun anew when a continue token expires
        (F18)."""
        chosen = {"label_selector": label_selector, "field_selector": field_selector}
        items, version = await self._read_list(
            api_version,
            plural,
            namespace,
            chosen,
            lambda page: decode.items(page, api_version),
            limit=limit,
        )
        return Listing(items, version)

    async def list_bytes(
        self, api_version: str, plural: str, namespace: str = "", *, label_selector: str = ""
    ) -> tuple[tuple[bytes, ...], str]:
        """As `list`, with each object as its own JSON, and the version of the list: for those that
        need a few fields of many objects, or pass them on."""
        chosen = {"label_selector": label_selector}
        return await self._read_list(
            api_version, plural, namespace, chosen, lambda page: decode.bodies(page, api_version)
        )

    async def collect(
        self,
        api_version: str,
        plural: str,
        keep: Callable[[dict[str, Any]], T | None],
        *,
        most: int,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> tuple[T, ...]:
        """What `keep` makes of each object of a consistent list, None left out; at most the first
        `most` of them, and then no more is read. No more than one page of objects is ever in
        memory."""
        chosen = {"label_selector": label_selector, "field_selector": field_selector}

        def kept(page: decode.Page) -> Iterator[T]:
            rows = (keep(obj) for obj in decode.items(page, api_version))
            return (row for row in rows if row is not None)

        return (await self._read_list(api_version, plural, namespace, chosen, kept, most=most))[0]

    async def _read_list(
        self,
        api_version: str,
        plural: str,
        namespace: str,
        chosen: Mapping[str, str],
        rows: Callable[[decode.Page], Iterable[T]],
        *,
        most: int = OBJECTS_MAX,
        limit: int = PAGE_SIZE,
    ) -> tuple[tuple[T, ...], str]:
        """What `rows` makes of each page of a list, and its version."""
        for last in (False, False, True):
            collected: list[T] = []
            version = ""
            # The last try asks for everything in one answer: nothing can expire in between.
            pages = self.pages(
                api_version,
                plural,
                namespace,
                limit=0 if last else limit,
                measured=contextlib.nullcontext,
                **chosen,
            )
            try:
                async with contextlib.aclosing(pages):
                    async for page in pages:
                        collected.extend(rows(page))
                        version = page.metadata.resourceVersion
                        if len(collected) >= most:
                            break
            except errors.Expired:
                if last:
                    raise
                continue
            return tuple(collected[:most]), version
        raise AssertionError("unreachable")

    async def pages(
        self,
        api_version: str,
        plural: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        measured: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> AsyncGenerator[decode.Page, None]:
        """The pages of one consistent list, by the newest version there is: without a
        resourceVersion no server answers from its cache alone. Raises `errors.Expired` when the
        list must be begun anew, and `errors.Endless` when it has no end. `measured` is entered
        while a page is decoded."""
        path = paths.collection(api_version, plural, namespace)
        chosen = paths.selection(label_selector, field_selector)
        token, count, number = "", 0, 0
        begun_s = asyncio.get_running_loop().time()
        while True:
            query = chosen + ((("limit", str(limit)),) if limit else ())
            if token:
                query += (("continue", token),)
            call = self._read("list", plural, path, query)
            body = await self._exchange.send(call)
            with measured():
                page = decode.page(body, self._exchange.what(call))
            count += len(page.items or ())
            if count > OBJECTS_MAX:
                raise errors.Endless(
                    f"{self._exchange.what(call)}: there are more than {OBJECTS_MAX} objects."
                )
            yield page
            if not page.metadata.continue_:
                return
            if page.metadata.continue_ == token:
                raise errors.Endless(
                    f"{self._exchange.what(call)}: the page that follows is the same page again."
                )
            token, number = page.metadata.continue_, number + 1
            if limit and (number - PAGES_FREE) * limit > 16 * count:
                raise errors.Endless(
                    f"{self._exchange.what(call)}: {number} pages have {count} objects."
                )
            if asyncio.get_running_loop().time() - begun_s > LIST_S:
                raise errors.Endless(
                    f"{self._exchange.what(call)}: it has not ended within {LIST_S:g} s."
                )

    async def version(self) -> dict[str, Any]:
        """What `/version` says: `gitVersion`, `major`, `minor`, ..."""
        call = self._read("get", "version", "/version", body_limit=WORD_LIMIT)
        return decode.obj(await self._exchange.send(call), self._exchange.what(call))

    async def ready(self, *, timeout_s: float = 5.0) -> str:
        """Asks `/readyz` once, without trying again. Returns the answer's Date header ("" when
        there is none).

        Raises an ApiError when the server is not ready, does not answer within `timeout_s`, or
        something else does.
        """
        call = Call("get", "readyz", "GET", "/readyz", timeout_s=timeout_s, body_limit=WORD_LIMIT)
        body, headers = await self._exchange.send_with_headers(call)
        if body.strip() != b"ok":
            raise errors.Malformed(
                f"{self._exchange.what(call)}: the answer is not the ok of an API server."
            )
        return headers.get("date", "")

    async def kube_system_uid(self) -> str:
        """The uid of the namespace kube-system, which identifies a cluster (invariant 17)."""
        ref = ObjectRef("v1", "namespaces", "", "kube-system", "Namespace")
        namespace = await self.get(ref, body_limit=SMALL_LIMIT)
        uid = namespace["metadata"].get("uid", "")
        if not isinstance(uid, str) or not 0 < len(uid) <= UID_MAX:
            raise errors.Malformed(f"{self.cluster}: the namespace kube-system has no uid.")
        return uid

    async def discover(self) -> tuple[discovery.Resource, ...]:
        """Every resource that is served, sorted. Groups that do not answer are left out, as kubectl
        does."""
        return await discovery.discover(self.raw)

    async def raw(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        body_limit: int = BODY_LIMIT,
    ) -> bytes:
        """The body of any request, at most `body_limit` bytes. `path` is percent-encoded
        already."""
        given = self.timeout_s if timeout_s is None else timeout_s
        safe = method in ("GET", "HEAD")
        return await self._exchange.send(
            Call(
                method.lower(),
                "raw",
                method,
                path,
                query,
                body,
                headers or {},
                given,
                safe,
                body_limit,
            )
        )

    # -- watches --------------------------------------------------------------

    async def open_watch(
        self,
        api_version: str,
        plural: str,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        lifetime_s: int = 0,
        silence_s: float = SILENCE_S,
        decoder: "msgspec.json.Decoder[decode.WatchEvent]" = decode.raw_event_decoder,
    ) -> WatchStream:
        """Opens a watch with bookmarks from `resource_version` on; "" begins with everything there
        is.

        The server ends it after `lifetime_s` seconds (0: when it likes). Raises `errors.Expired`
        when the version is too old, and the other ApiErrors; what happens later comes out of the
        stream.
        """
        query: Query = (("watch", "true"), ("allowWatchBookmarks", "true"))
        if resource_version:
            query += (("resourceVersion", resource_version),)
        if lifetime_s:
            query += (("timeoutSeconds", str(lifetime_s)),)
        query += paths.selection(label_selector, field_selector)
        call = Call("watch", plural, "GET", paths.collection(api_version, plural, namespace), query)
        response = await self._exchange.open(call, silence_s=silence_s)
        return WatchStream(
            response, silence_s=silence_s, what=self._exchange.what(call), decoder=decoder
        )

    async def watch(
        self,
        api_version: str,
        plural: str,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncGenerator[Event, None]:
        """Decoded events of one watch until the server ends it. An ERROR event is raised as the
        ApiError it carries."""
        stream = await self.open_watch(
            api_version,
            plural,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        try:
            while (batch := await stream.batch()) is not None:
                for row in batch:
                    event = stream.event(row)
                    if event.type == "ERROR":
                        raise decode.event_error(event.object)
                    yield Event(event.type, decode.obj(bytes(event.object), "watch"))
        finally:
            await stream.close()

    # -- writes ---------------------------------------------------------------

    async def create(
        self,
        ref: ObjectRef,
        body: Mapping[str, Any] | msgspec.Raw,
        dry_run: bool = False,
        *,
        strict: bool = False,
        whole: bool = True,
    ) -> dict[str, Any]:
        """POSTs the object, which may be encoded already. Raises `errors.AlreadyExists`.

        `strict`: unknown fields are refused instead of dropped. `whole`: returns the object as it
        is stored, else only its metadata.
        """
        path = paths.collection(ref.api_version, ref.plural, ref.namespace)
        return await self._write(
            "create",
            "POST",
            ref,
            path,
            body,
            options=self._options(dry_run, strict),
            accept=JSON if whole else METADATA,
        )

    async def create_at(
        self, ref: ObjectRef, subresource: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """POSTs to a subresource of an object, as for a TokenRequest."""
        path = paths.single(ref, subresource)
        return await self._write(
            "create", "POST", ref, path, body, options=self._options(False, False)
        )

    async def replace(
        self,
        ref: ObjectRef,
        body: Mapping[str, Any],
        subresource: str = "",
        *,
        dry_run: bool = False,
        strict: bool = False,
    ) -> dict[str, Any]:
        """PUTs the object; a `metadata.resourceVersion` in it must be the live one (else
        `errors.Conflict`)."""
        path = paths.single(ref, subresource)
        return await self._write(
            "update", "PUT", ref, path, body, options=self._options(dry_run, strict)
        )

    async def patch(
        self,
        ref: ObjectRef,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        kind: str = "merge",
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
        strict: bool = False,
    ) -> dict[str, Any]:
        """Patches the object. `kind`: merge, json, apply (server-side, creates too) or strategic
        (builtin kinds only).

        A `metadata.uid` or `metadata.resourceVersion` in a merge patch is a precondition:
        `errors.Conflict` otherwise.
        """
        options = self._options(dry_run, strict)
        if kind == "apply":
            options += (("force", "true" if force else "false"),)
        path = paths.single(ref, subresource)
        verb = "apply" if kind == "apply" else "patch"
        try:
            return await self._write(
                verb, "PATCH", ref, path, body, options=options, content_type=PATCH_TYPES[kind]
            )
        except errors.Invalid as exc:
            # API servers refuse another object's uid with 422, "metadata.uid is immutable"; in
            # truth it is a conflict.
            if any(cause.get("field") == "metadata.uid" for cause in exc.causes):
                raise errors.Conflict(
                    str(exc), status=exc.status, reason=exc.reason, causes=exc.causes
                ) from exc
            raise

    async def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str,
        propagation: str = "Background",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Deletes the object with this uid and no other (`errors.Conflict`). Returns what the
        server answered."""
        conditions = {"uid": uid}
        if resource_version:
            conditions["resourceVersion"] = resource_version
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": conditions,
        }
        options: Query = (("dryRun", "All"),) if dry_run else ()
        return await self._write(
            "delete", "DELETE", ref, paths.single(ref), body, options=options, stored=False
        )

    async def close(self) -> None:
        """Closes the transport."""
        await self.transport.close()

    # -- how a call is made ---------------------------------------------------

    def _options(self, dry_run: bool, strict: bool) -> Query:
        options: Query = (("fieldManager", self.field_manager),)
        if dry_run:
            options += (("dryRun", "All"),)
        if strict:
            options += (("fieldValidation", "Strict"),)
        return options

    def _read(
        self,
        verb: str,
        resource: str,
        path: str,
        query: Query = (),
        *,
        timeout_s: float | None = None,
        body_limit: int = BODY_LIMIT,
    ) -> Call:
        given = self.timeout_s if timeout_s is None else timeout_s
        return Call(
            verb, resource, "GET", path, query, timeout_s=given, safe=True, body_limit=body_limit
        )

    async def _write(
        self,
        verb: str,
        method: str,
        ref: ObjectRef,
        path: str,
        body: object,
        *,
        options: Query,
        content_type: str = JSON,
        accept: str = JSON,
        stored: bool = True,
    ) -> dict[str, Any]:
        call = Call(
            verb,
            ref.plural,
            method,
            path,
            options,
            msgspec.json.encode(body),
            {"content-type": content_type, "accept": accept},
            self.timeout_s,
            body_limit=OBJECT_LIMIT,
        )
        return decode.single(
            await self._exchange.send(call), ref.name, self._exchange.what(call), stored=stored
        )

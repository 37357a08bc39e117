"""Seals: how the hub recognises its own decisions.

Every decision carries a keyed hash of its name and spec (`spec.seal`); the key lies in a Secret of
the hub's own namespace. Admission on the host is the first line, this is the second: a decision
without our seal is not obeyed. Decisions of a release that made none are obeyed as they are found
when a hub begins to lead, and sealed then; once all are, the Secret says so, and from then on none
counts without (docs/decisions/0081-decisions-are-sealed.md).
"""

import base64
import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from federator.api import raw
from federator.kube import client as clients
from federator.kube import errors
from federator.model import names
from federator.model.steps import ObjectRef

log = logging.getLogger(__name__)

SECRET: Final = "federator-decisions"
"""In the hub's own namespace. `deploy/` ships it empty, so that the hub needs no right to create
Secrets."""
KEY: Final = "key"
ALL_SEALED: Final = f"{names.FEDERATION}/all-sealed"
"""Annotation of the Secret: no decision without a seal is ours any more."""
KEY_BYTES: Final = 32
FREE: Final = frozenset({"seal", "verdicts", "deletion"})
"""Parts of a decision's spec that no seal covers: verdicts and the reason why a tombstone stands
are only told."""
TRIES: Final = 3


def author(obj: Mapping[str, Any]) -> str:
    """The last writer of an object, according to the field managers that its API server records: a
    hint for people, never a proof."""
    listed = raw.at(obj, "metadata", "managedFields")
    if isinstance(listed, msgspec.Raw):  # as `host_shape` leaves it
        listed = msgspec.json.decode(listed)
    entries = [entry for entry in raw.objects(listed) if not entry.get("subresource")]
    last = max(entries, key=lambda entry: raw.text(entry, "time"), default={})
    manager, time = raw.text(last, "manager"), raw.text(last, "time")
    return f"{manager} at {time}" if manager else "somebody else"


def signed_text(namespace: str, name: str, spec: Mapping[str, Any]) -> bytes | None:
    """What a seal is made of; None for what no API server can hold."""
    covered = {part: value for part, value in spec.items() if part not in FREE}
    try:
        return msgspec.json.encode([namespace, name, covered], order="sorted")
    except UnicodeEncodeError:  # half a surrogate pair
        return None


class Seals:
    """The key, and how strict it is asked for. One per hub process."""

    def __init__(self, new_key: Callable[[], bytes] = bytes) -> None:
        self._new_key = new_key
        self._key = b""
        self.complete = False
        """Whether every decision of ours is known to be sealed."""
        self.off = ""
        """Why no seals are made or asked for, "" while they are."""

    @property
    def usable(self) -> bool:
        """Whether seals can be made and checked."""
        return bool(self._key) and not self.off

    def of(self, namespace: str, name: str, spec: Mapping[str, Any]) -> str:
        """The seal of a decision that is to be written; "" while there is no key."""
        text = signed_text(namespace, name, spec) if self.usable else None
        return (
            hashlib.blake2b(text, key=self._key, digest_size=24).hexdigest()
            if text is not None
            else ""
        )

    def is_ours(self, obj: Mapping[str, Any]) -> bool:
        """Whether this decision is as a hub with our key wrote it."""
        meta, spec = raw.mapping(obj, "metadata"), raw.mapping(obj, "spec")
        seal, due = (
            raw.text(spec, "seal"),
            self.of(raw.text(meta, "namespace"), raw.text(meta, "name"), spec),
        )
        return bool(due) and hmac.compare_digest(seal.encode("utf-8", "replace"), due.encode())

    def kept(self, answer: Mapping[str, Any]) -> None:
        """Looks at the answer to our own write: an older CRD prunes the seal, or something that it
        covers, and then none can be asked for."""
        if self.usable and not self.is_ours(answer):
            what = "not all that it seals" if raw.text(answer, "spec", "seal") else "no spec.seal"
            self.off = f"the CRD of PlacementDecisions is older than this hub and keeps {what}"
            log.error(
                "decisions of others cannot be told from ours: %s; run `federator crd install`",
                self.off,
            )

    async def load(self, host: clients.Client, namespace: str, *, make: bool) -> bool:
        """Reads the key, and makes one where there is none yet and `make` says so. Returns whether
        another key is known now than before. Raises ApiErrors; one that we may not read or write
        turns seals off."""
        before = self._key
        ref = ObjectRef("v1", "secrets", namespace, SECRET, "Secret")
        for _ in range(TRIES):
            try:
                try:
                    secret = await host.get(ref)
                except errors.NotFound:
                    if not make:
                        break
                    body = {
                        "apiVersion": "v1",
                        "kind": "Secret",
                        "type": "Opaque",
                        "metadata": {"name": SECRET},
                    }
                    secret = await host.create(ref, body)
                self._take(secret)
                if self._key or not make:
                    break
                self._take(await self._fill(host, ref, secret))
                log.info(
                    "made a key for the seals of decisions, in the Secret %s/%s", namespace, SECRET
                )
                break
            except (errors.Conflict, errors.AlreadyExists):
                continue  # another hub was faster
            except (errors.Denied, errors.NotFound) as refused:
                self.off = f"the Secret {namespace}/{SECRET} cannot be had: {refused}"
                log.error("decisions of others cannot be told from ours: %s", self.off)
                break
        return self._key != before

    @staticmethod
    def _key_in(secret: Mapping[str, Any]) -> bytes:
        """The key in the Secret; empty when it has none that can be used."""
        try:
            key = base64.b64decode(raw.text(secret, "data", KEY), validate=True)
        except ValueError:
            key = b""
        return key if 16 <= len(key) <= 64 else b""

    def _take(self, secret: Mapping[str, Any]) -> None:
        self._key = self._key_in(secret)
        self.complete = bool(self._key) and bool(
            raw.text_map(secret["metadata"], "annotations").get(ALL_SEALED)
        )

    async def _fill(
        self, host: clients.Client, ref: ObjectRef, secret: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Writes a new key. The mark that all decisions are sealed goes: it was about the old
        key."""
        version = secret["metadata"]["resourceVersion"]
        data = {KEY: base64.b64encode(self._new_key()).decode()}
        meta = {"resourceVersion": version, "annotations": {ALL_SEALED: None}}
        return await host.patch(ref, {"metadata": meta, "data": data})

    async def finish(self, host: clients.Client, namespace: str, when: str) -> None:
        """Notes that every decision is sealed from now on. Raises ApiErrors, `errors.Conflict` when
        another key has come meanwhile, which the decisions are not sealed with."""
        ref = ObjectRef("v1", "secrets", namespace, SECRET, "Secret")
        secret = await host.get(ref)
        if self._key_in(secret) != self._key:
            raise errors.Conflict(
                f"the Secret {namespace}/{SECRET} has another key now", reason="Conflict"
            )
        version = secret["metadata"]["resourceVersion"]
        meta = {"resourceVersion": version, "annotations": {ALL_SEALED: when}}
        await host.patch(ref, {"metadata": meta})
        self.complete = True
        log.info("every decision is sealed: none is obeyed without from now on")

"""The token controller: fills Secrets of type kubernetes.io/service-account-token, and removes
those of accounts that are gone.

Only readers of the Secret wait for it. The Secret names its account in an annotation.
"""

import base64
from collections.abc import Iterator
from typing import Final

from federator.embedded.auth.tokens import Tokens
from federator.embedded.controllers.agenda import Dirty
from federator.embedded.controllers.tools import Key, Tools
from federator.embedded.storage.revisions import DELETED, Event, JsonObject

TOKEN_TYPE: Final = "kubernetes.io/service-account-token"  # a type, not a token
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"


class AccountTokens:
    """One controller for all token Secrets of a cluster."""

    def __init__(self, tools: Tools, tokens: Tokens) -> None:
        self._tools = tools
        self._tokens = tokens
        self._dirty: Dirty[Key] = Dirty()

    def notice(self, event: Event) -> None:
        if event.resource is self._tools.kinds.secrets:
            if event.type is not DELETED and event.current.obj.get("type") == TOKEN_TYPE:
                self._dirty.add(event.key)
        elif event.resource is self._tools.kinds.serviceaccounts:
            self.recheck(event.key[0])

    def recheck(self, namespace: str | None = None) -> None:
        """Looks at the Secrets of one namespace, or at all of them, again."""
        for revision in self._tools.store.items(self._tools.kinds.secrets, namespace):
            if revision.obj.get("type") == TOKEN_TYPE:
                self._dirty.add(revision.key)

    def steps(self) -> Iterator[None]:
        for key in self._dirty.drain():
            secret = self._tools.get(self._tools.kinds.secrets, key)
            if secret is not None and "deletionTimestamp" not in secret["metadata"]:
                self._settle(secret)
                yield

    def _settle(self, secret: JsonObject) -> None:
        kinds, metadata = self._tools.kinds, secret["metadata"]
        annotations = metadata.get("annotations") or {}
        account = self._tools.get(
            kinds.serviceaccounts, (metadata["namespace"], annotations.get(_ACCOUNT_NAME, ""))
        )
        uid = None if account is None else account["metadata"]["uid"]
        if account is None or annotations.get(_ACCOUNT_UID, uid) != uid:
            self._tools.delete(kinds.secrets, secret)
            return
        data = dict(secret.get("data") or {})
        wanted = {"namespace": metadata["namespace"]}
        if self._tools.root_ca:
            wanted["ca.crt"] = self._tools.root_ca
        if not data.get("token"):
            wanted["token"] = self._tokens.issue_legacy(account, metadata["name"])
        data.update(
            {name: base64.b64encode(text.encode()).decode() for name, text in wanted.items()}
        )
        owned = {**metadata, "annotations": {**annotations, _ACCOUNT_UID: uid}}
        self._tools.store.update(kinds.secrets, {**secret, "metadata": owned, "data": data})

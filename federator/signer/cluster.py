"""What the signer asks the API server of its cluster: the pod of a token, and the project of a
namespace."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from federator.api import raw
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.tokens import is_bearer
from federator.model.steps import ObjectRef
from federator.runtime.identity.authority import Away
from federator.runtime.identity.certificates import CertificateRefused
from federator.signer.issuing import Attested, Turns

REVIEW_S: Final = 5.0
REVIEWS_MAX: Final = 16
"""Reviews of tokens at a time: anybody can send a token, and each one costs the API server."""
REVIEWS_WAITING: Final = 128
"""Requests that wait for a review; more get 503 with Retry-After."""
PROJECT_LABEL: Final = "pinterest.com/project"
PROJECT_S: Final = 60.0
PROJECTS_MAX: Final = 10_000
NAME_MAX: Final = 63
_SUBJECT: Final = "system:serviceaccount:"
_POD: Final = "authentication.kubernetes.io/pod-"
_TOKENS: Final = ObjectRef("authentication.k8s.io/v1", "tokenreviews", "", "", "TokenReview")


class Unauthorized(Exception):
    """The token does not belong to a pod of this cluster. The message is for its sender."""


class Cluster:
    """The API server, asked with the signer's own account."""

    def __init__(self, client: Client, audience: str, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._audience = audience
        self._monotonic = monotonic
        self._reviews = Turns(REVIEWS_MAX, REVIEWS_WAITING)
        self._projects: OrderedDict[str, tuple[float, str]] = OrderedDict()

    async def pod_of(self, token: str) -> Attested:
        """The pod that a token is bound to. Raises Unauthorized; Busy when too many are
        reviewed; Away while the API server does not answer."""
        if not is_bearer(token):
            raise Unauthorized("a service account token of a pod is needed, as a bearer token")
        body = {
            "apiVersion": _TOKENS.api_version,
            "kind": _TOKENS.kind,
            "spec": {"token": token, "audiences": [self._audience]},
        }
        try:
            async with self._reviews.turn(), asyncio.timeout(REVIEW_S):
                document = await self._client.create(_TOKENS, body)
        except (errors.ApiError, TimeoutError) as bad:
            raise Away(f"the API server does not review tokens: {type(bad).__name__}") from None
        return attested(raw.mapping(document, "status"), self._audience)

    async def project_of(self, namespace: str) -> str:
        """The label of the namespace; the last one known while the API server does not answer.
        Raises Away when none is known."""
        now_s = self._monotonic()
        kept = self._projects.get(namespace)
        if kept is not None and now_s < kept[0]:
            return kept[1]
        try:
            ref = ObjectRef("v1", "namespaces", "", namespace, "Namespace")
            labels = (await self._client.get(ref, timeout_s=REVIEW_S))["metadata"].get("labels")
        except errors.NotFound:
            raise CertificateRefused("NoNamespace", f"there is no namespace {namespace}") from None
        except errors.ApiError as bad:
            if kept is not None:
                return kept[1]
            raise Away(f"the namespace cannot be read: {type(bad).__name__}") from None
        project = str((labels or {}).get(PROJECT_LABEL, ""))[:NAME_MAX]
        self._projects[namespace] = (now_s + PROJECT_S, project)
        self._projects.move_to_end(namespace)
        while len(self._projects) > PROJECTS_MAX:
            self._projects.popitem(last=False)
        return project


def attested(status: Mapping[str, Any], audience: str) -> Attested:
    """The pod in the status of a TokenReview. Raises Unauthorized."""
    if status.get("authenticated") is not True:
        raise Unauthorized("the API server does not accept the token")
    if audience not in raw.texts(status, "audiences"):
        raise Unauthorized(f"the token is not for the audience {audience}")
    user = raw.mapping(status, "user")
    namespace, colon, account = str(user.get("username", "")).removeprefix(_SUBJECT).partition(":")
    if not str(user.get("username", "")).startswith(_SUBJECT) or not colon:
        raise Unauthorized("the token is not that of a service account")
    extra = raw.mapping(user, "extra")
    pod, uid = (next(iter(raw.texts(extra, _POD + what)), "") for what in ("name", "uid"))
    if not pod or not uid:
        raise Unauthorized("the token is not bound to a pod; a projected token is")
    return Attested(namespace, account, pod, uid, "token")

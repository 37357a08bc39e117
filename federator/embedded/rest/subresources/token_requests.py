"""POST of serviceaccounts/token: a TokenRequest, answered with a token (`kubectl create token`).

The order of the checks and their words are those of Kubernetes 1.37.
"""

import msgspec

from federator.embedded.auth.tokens import AUDIENCE, BOUND_KINDS
from federator.embedded.rest import bodies, reading
from federator.embedded.rest.context import Context
from federator.embedded.storage import refusals
from federator.embedded.storage.field_errors import FieldError, invalid
from federator.embedded.storage.messages import Answer, ApiRequest, Target, json_answer
from federator.embedded.storage.revisions import JsonObject
from federator.kube import clock as clocks

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_LIFETIME_S = 3600
_SHORTEST_S, _LONGEST_S = 600, 1 << 32


class _Reference(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct):
    audiences: list[str] | None = None
    expirationSeconds: int | None = None
    boundObjectRef: _Reference | None = None


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Request(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)


def create(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """201 with the request, its defaults filled in, and the token in its status."""
    try:
        given = msgspec.convert(bodies.read_object(request, target.info), _Request)
    except msgspec.ValidationError as error:
        raise refusals.bad_request(
            f'{_KIND} in version "v1" cannot be handled as a {_KIND}: {error}'
        ) from None
    metadata, spec = given.metadata, given.spec
    _check_name(metadata.name, target.name, "name", target.name)
    _check_name(metadata.namespace, target.space, "namespace", target.name)
    account = reading.existing(ctx.store, Target(target.info, target.namespace, target.name)).obj
    uid = account["metadata"]["uid"]
    if metadata.uid not in {"", uid}:
        why = (
            f"the UID in the token request ({metadata.uid}) does not match the UID of the service"
            f" account ({uid})"
        )
        raise refusals.conflict(_GROUP, _KIND, target.name, why)
    audiences = spec.audiences or [AUDIENCE]
    seconds = _LIFETIME_S if spec.expirationSeconds is None else spec.expirationSeconds
    _check_lifetime(seconds)
    bound = None if spec.boundObjectRef is None else _bound(ctx, target, spec.boundObjectRef)
    now = int(ctx.clock.now())
    token = ctx.tokens.issue(account, audiences=audiences, lifetime_s=seconds, bound=bound)
    answer = {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": target.name,
            "namespace": target.space,
            "uid": uid,
            "creationTimestamp": clocks.stamp(now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": spec.boundObjectRef,
        },
        "status": {"token": token, "expirationTimestamp": clocks.stamp(now + seconds)},
    }
    return json_answer(answer, 201)


def _check_name(given: str, wanted: str, field: str, name: str) -> None:
    if given and given != wanted:
        error = invalid(
            f"metadata.{field}", given, f"must match the service account {field} if specified"
        )
        raise _refused(error, name)


def _check_lifetime(seconds: int) -> None:
    if seconds < _SHORTEST_S:
        raise _refused(
            invalid(
                "spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
            )
        )
    if seconds > _LONGEST_S:
        why = "may not specify a duration larger than 2^32 seconds"
        raise _refused(invalid("spec.expirationSeconds", seconds, why))


def _refused(error: FieldError, name: str = "") -> refusals.Refusal:
    return refusals.invalid(_GROUP, _KIND, name, [error])


def _bound(ctx: Context, target: Target, reference: _Reference) -> JsonObject:
    """The object that the token shall end with."""
    if reference.apiVersion != "v1" or reference.kind not in BOUND_KINDS:
        group, _, version = reference.apiVersion.rpartition("/")
        raise refusals.bad_request(
            f"cannot bind token to object of type {group}/{version}, Kind={reference.kind}"
        )
    info = ctx.registry.get("", BOUND_KINDS[reference.kind])
    referenced = reading.existing(
        ctx.store, Target(info, target.namespace if info.namespaced else None, reference.name)
    ).obj
    if (
        reference.kind == "Pod"
        and referenced["spec"].get("serviceAccountName", "default") != target.name
    ):
        why = (
            f'cannot bind token for serviceaccount "{target.name}"'
            " to pod running with different serviceaccount name."
        )
        raise refusals.bad_request(why)
    uid = referenced["metadata"]["uid"]
    if reference.uid not in {"", uid}:
        why = (
            f"the UID in the bound object reference ({reference.uid}) does not match the UID in"
            " record. The object "
            "might have been deleted and then recreated"
        )
        raise refusals.conflict("", info.plural, reference.name, why)
    return referenced

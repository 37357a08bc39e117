"""Reviews: questions that are posted, answered and forgotten (access reviews, token reviews, who am I).

Permission itself is asked of an `Authorizer`; without one everything is allowed to administrators and nothing to
others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from federator.embedded import bodies, refusals
from federator.embedded.context import Context
from federator.embedded.messages import Answer, ApiRequest, Caller, Target, json_answer
from federator.embedded.revisions import JsonObject


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a request wants to do, as an authorizer sees it. `path` is set for non-resource URLs only."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Authorizer(Protocol):
    """Who may do what."""

    def allows(self, caller: Caller, attributes: Attributes) -> str | None:
        """The reason why it is allowed (may be empty), or None when it is not."""
        ...


class MastersOnly:
    """The default: administrators may do everything, everybody may ask who they are and what they may."""

    _OPEN = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})
    _PATHS = ("/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/openapi")

    def allows(self, caller: Caller, attributes: Attributes) -> str | None:
        if caller.is_master or attributes.resource in self._OPEN:
            return ""
        open_path = attributes.path and attributes.verb == "get" and attributes.path.startswith(self._PATHS)
        return "" if open_path else None


TokenLookup = Callable[[str], Caller | None]


def answer(ctx: Context, request: ApiRequest, target: Target, authorizer: Authorizer, caller_of: TokenLookup) -> Answer:
    """The answer to a review: what was posted, with its status filled in (201)."""
    given = bodies.read_object(request, target.info)
    plural, spec = target.info.plural, given.get("spec") or {}
    given.setdefault("metadata", {})
    if plural == "selfsubjectaccessreviews":
        status = _access(authorizer, request.caller, spec)
    elif plural in {"subjectaccessreviews", "localsubjectaccessreviews"}:
        other = Caller(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
        status = _access(authorizer, other, spec)
    elif plural == "selfsubjectrulesreviews":
        status = _rules(request.caller)
    elif plural == "selfsubjectreviews":
        given["metadata"] = {"creationTimestamp": ctx.clock.rfc3339()}
        status = {"userInfo": _user(request.caller)}
    elif plural == "tokenreviews":
        status = _token(caller_of(spec.get("token", "")))
    else:
        raise refusals.method_not_allowed()
    head = {"kind": target.info.kind, "apiVersion": target.info.api_version}
    return json_answer({**head, **given, "status": status}, 201)


def _access(authorizer: Authorizer, caller: Caller, spec: JsonObject) -> JsonObject:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None:
        attributes = Attributes(
            verb=resource.get("verb", ""),
            group=resource.get("group", ""),
            resource=resource.get("resource", ""),
            subresource=resource.get("subresource", ""),
            namespace=resource.get("namespace", ""),
            name=resource.get("name", ""),
        )
    elif path is not None:
        attributes = Attributes(verb=path.get("verb", ""), path=path.get("path", ""))
    else:
        raise refusals.bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
    reason = authorizer.allows(caller, attributes)
    status: JsonObject = {"allowed": reason is not None}
    if reason:
        status["reason"] = reason
    return status


def _rules(caller: Caller) -> JsonObject:
    own = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    resources: list[JsonObject] = [
        {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": own},
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ]
    paths: list[JsonObject] = [
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]},
    ]
    if caller.is_master:
        resources.insert(0, {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.insert(0, {"verbs": ["*"], "nonResourceURLs": ["*"]})
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


def _user(caller: Caller) -> JsonObject:
    user: JsonObject = {"username": caller.name, "groups": list(caller.groups)}
    if caller.uid:
        user["uid"] = caller.uid
    return user


def _token(caller: Caller | None) -> JsonObject:
    if caller is None:
        return {"user": {}, "error": "invalid bearer token"}
    audience = "https://kubernetes.default.svc"
    return {"authenticated": True, "user": _user(caller), "audiences": [audience]}

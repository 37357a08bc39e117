"""Reviews: questions that are posted, answered and forgotten (access reviews, token reviews,
`whoami`)."""

from federator.embedded.auth.rbac import Attributes, Rbac
from federator.embedded.auth.tokens import AUDIENCE
from federator.embedded.rest import bodies
from federator.embedded.rest.context import Context
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import Answer, ApiRequest, Caller, Target, json_answer
from federator.embedded.storage.revisions import JsonObject


def answer(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """The answer to a review: what was posted, with its status filled in (201)."""
    given = bodies.read_object(request, target.info)
    plural, spec = target.info.plural, given.get("spec") or {}
    given.setdefault("metadata", {})
    if plural == "selfsubjectaccessreviews":
        status = _access(ctx.authorizer, request.caller, spec)
    elif plural in {"subjectaccessreviews", "localsubjectaccessreviews"}:
        other = Caller(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
        status = _access(ctx.authorizer, other, spec)
    elif plural == "selfsubjectrulesreviews":
        status = _rules(ctx.authorizer, request.caller, spec.get("namespace") or "")
    elif plural == "selfsubjectreviews":
        given["metadata"] = {"creationTimestamp": ctx.clock.rfc3339()}
        status = {"userInfo": _user(request.caller)}
    elif plural == "tokenreviews":
        audiences = spec.get("audiences") or [AUDIENCE]
        status = _token(ctx.tokens.reviewed(spec.get("token") or "", audiences))
    else:
        raise refusals.method_not_allowed()
    head = {"kind": target.info.kind, "apiVersion": target.info.api_version}
    return json_answer({**head, **given, "status": status}, 201)


def _access(authorizer: Rbac, caller: Caller, spec: JsonObject) -> JsonObject:
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
        raise refusals.bad_request(
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        )
    decision = authorizer.decide(caller, attributes)
    status: JsonObject = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return status


def _rules(authorizer: Rbac, caller: Caller, namespace: str) -> JsonObject:
    if not namespace:
        raise refusals.bad_request("no namespace on request")
    rules, missing = authorizer.rules(caller, namespace)
    resources = [
        _part(rule, "apiGroups", "resources", "resourceNames")
        for rule in rules
        if rule.get("resources")
    ]
    paths = [_part(rule, "nonResourceURLs") for rule in rules if rule.get("nonResourceURLs")]
    status: JsonObject = {
        "resourceRules": resources,
        "nonResourceRules": paths,
        "incomplete": False,
    }
    if missing:
        status["evaluationError"] = (
            missing[0] if len(missing) == 1 else "[" + ", ".join(missing) + "]"
        )
    return status


def _part(rule: JsonObject, *fields: str) -> JsonObject:
    return {field: rule[field] for field in ("verbs", *fields) if rule.get(field)}


def _user(caller: Caller) -> JsonObject:
    user: JsonObject = {"username": caller.name, "groups": list(caller.groups)}
    if caller.uid:
        user["uid"] = caller.uid
    if caller.extra:
        user["extra"] = {name: [value] for name, value in caller.extra}
    return user


def _token(reviewed: tuple[Caller, list[str]] | None) -> JsonObject:
    if reviewed is None:
        return {"user": {}, "error": "invalid bearer token"}
    caller, audiences = reviewed
    return {"authenticated": True, "user": _user(caller), "audiences": audiences}

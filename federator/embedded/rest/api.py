"""The front door of one embedded API server: a request in, an answer out, synchronously.

Routes a path to its handler, asks for permission, counts, and turns refusals into Status answers.
Transports (in process, HTTP) only carry; whatever they share is here.
"""

import email.utils
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote

from federator.embedded.auth import impersonation
from federator.embedded.auth.rbac import Attributes
from federator.embedded.rest import (
    deleting,
    discovery,
    field_selectors,
    patching,
    reading,
    watching,
    writing,
)
from federator.embedded.rest.context import Context
from federator.embedded.rest.subresources import reviews, subresources
from federator.embedded.rest.subresources.subresources import Handler
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import (
    Answer,
    ApiRequest,
    Caller,
    Target,
    json_answer,
    text_answer,
)
from federator.embedded.storage.resources import ResourceInfo

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NON_RESOURCE = "other"
_NAMESPACES = ("", "namespaces")


class Api:
    """One server's request handling. `requests` counts (verb, "plural.group/subresource") for
    budgets and metrics; the verbs of requests that only try something begin with "dry-run "."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.requests: Counter[tuple[str, str]] = Counter()
        self._discovery = discovery.Discovery(ctx.registry)
        self._second = -1
        self._date = ""

    def date(self) -> str:
        """What every answer says in its Date header: this cluster's own clock, cut to the
        second."""
        second = int(self.ctx.clock.now())
        if second != self._second:
            self._second, self._date = second, email.utils.formatdate(second, usegmt=True)
        return self._date

    def handle(self, request: ApiRequest) -> Answer:
        """The answer to one request; refusals are answers too."""
        try:
            return self._answer(request)
        except discovery.NoSuchPage as page:
            return text_answer(page.message + "\n", 404)
        except refusals.Refusal as refusal:
            return json_answer(refusal.status(), refusal.code, refusal.warnings)
        except RecursionError:
            return json_answer(
                refusals.bad_request("the object is nested too deeply").status(), 400
            )

    def _answer(self, request: ApiRequest) -> Answer:
        target = self._route(request.path)
        if target is None:
            self._permit(request, Attributes(verb=request.method.lower(), path=request.path))
            self.requests[(request.method.lower(), _NON_RESOURCE)] += 1
            if request.method != "GET":
                raise refusals.method_not_allowed()
            return self._discovery.answer(request)
        verb = _verb(request, target)
        info = target.info
        request = self._permit(request, _attributes(request, verb, target))
        counted = (
            f"{info.qualified_resource}/{target.subresource}"
            if target.subresource
            else info.qualified_resource
        )
        self.requests[(f"dry-run {verb}" if request.param("dryRun") else verb, counted)] += 1
        answer = self._handler(request.method, verb, target)(self.ctx, request, target)
        if info.deprecation:
            return replace(answer, warnings=(*answer.warnings, info.deprecation))
        return answer

    def _handler(self, method: str, verb: str, target: Target) -> Handler:
        info = target.info
        if target.subresource:
            handlers = subresources.HANDLERS.get(target.subresource)
            if handlers is None or target.subresource not in info.subresources:
                if info.is_builtin:
                    raise refusals.no_such_path()
                raise refusals.not_found(info.group, info.plural, target.name)
            if method not in handlers:
                raise refusals.method_not_allowed()
            return handlers[method]
        if not info.is_stored:
            if verb != "create":
                raise refusals.method_not_allowed()
            return reviews.answer
        if verb not in info.verbs or (verb in {"update", "patch"} and not target.name):
            raise refusals.method_not_allowed()
        if verb == "create" and target.name:
            raise refusals.method_not_allowed()
        if verb in {"create", "deletecollection"} and info.namespaced and target.namespace is None:
            # Across all namespaces there is only reading.
            raise refusals.method_not_allowed()
        return _HANDLERS[verb]

    def _permit(self, request: ApiRequest, attributes: Attributes) -> ApiRequest:
        """The request in the name of the user that it acts as. Raises `Refusal` 403."""
        authorizer = self.ctx.authorizer
        caller = impersonation.actor(request, authorizer)
        if caller is None:
            verb = impersonation.verb_on(request.headers["impersonate-user"], attributes.verb)
            raise _forbidden(request.caller, replace(attributes, verb=verb), "")
        decision = authorizer.decide(caller, attributes)
        if not decision.allowed:
            raise _forbidden(caller, attributes, decision.reason)
        return request if caller is request.caller else replace(request, caller=caller)

    def _route(self, path: str) -> Target | None:
        """The resource a path names; None for discovery and health. Raises `Refusal` 404 for an
        unknown resource."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        find = self.ctx.registry.find
        if rest[0] == "namespaces" and len(rest) > 2:
            info = find(group, version, rest[2])
            if info is not None and info.namespaced and rest[1]:
                return _target(info, rest[1], rest[3:])
        info = find(group, version, rest[0])
        if info is None:
            if version not in self.ctx.registry.groups().get(group, {}):
                raise discovery.NoSuchPage()
            raise refusals.no_such_path()
        if info.namespaced and len(rest) > 1:
            raise refusals.no_such_path()
        return _target(info, None, rest[1:])


def _target(info: ResourceInfo, namespace: str | None, rest: list[str]) -> Target:
    name = rest[0] if rest else ""
    subresource = rest[1] if len(rest) > 1 else ""
    return Target(info, namespace, name, subresource)


def _attributes(request: ApiRequest, verb: str, target: Target) -> Attributes:
    """What the authorizer is asked about a resource request."""
    info, namespace, name = target.info, target.namespace or "", target.name
    if info.key == _NAMESPACES:
        # A namespace lies in itself.
        namespace = name
    if not name and verb in {"list", "watch", "deletecollection"}:
        try:
            name = field_selectors.only_name(request.param("fieldSelector")) or ""
        except refusals.Refusal:
            # The handler reports the error, after the caller is authorized.
            name = ""
    return Attributes(verb, info.group, info.plural, target.subresource, namespace, name)


def _forbidden(caller: Caller, attributes: Attributes, reason: str) -> refusals.Refusal:
    """403 in the words of a real server."""
    because = f": {reason}" if reason else ""
    if attributes.path:
        why = f'User "{caller.name}" cannot {attributes.verb} path "{attributes.path}"{because}'
        return refusals.Refusal(403, "Forbidden", f"forbidden: {why}", {})
    resource = attributes.resource + (
        f"/{attributes.subresource}" if attributes.subresource else ""
    )
    scope = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    why = (
        f'User "{caller.name}" cannot {attributes.verb} resource "{resource}" '
        f'in API group "{attributes.group}" {scope}{because}'
    )
    return refusals.forbidden(attributes.group, attributes.resource, attributes.name, why)


def _verb(request: ApiRequest, target: Target) -> str:
    """The Kubernetes verb of a request. Raises `Refusal` 405."""
    method = request.method
    if method in {"GET", "HEAD"}:
        if request.flag("watch") and not target.subresource:
            return "watch"
        return "get" if target.name else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    if method not in _VERBS:
        raise refusals.method_not_allowed()
    return _VERBS[method]


_HANDLERS: Mapping[str, Handler] = {
    "get": lambda ctx, request, target: reading.get(ctx.store, request, target),
    "list": lambda ctx, request, target: reading.listing(ctx.store, request, target),
    "watch": lambda ctx, request, target: watching.watch(
        ctx.store, request, target, ctx.registry.crd
    ),
    "create": writing.create,
    "update": writing.replace,
    "patch": patching.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}

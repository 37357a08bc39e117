"""Acting as another user (`kubectl --as`): the Impersonate-* headers.

Called by `api` before anything else is decided about a request.
"""

from federator.embedded.auth.rbac import SERVICE_ACCOUNT, Attributes, Rbac, account_groups
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import ApiRequest, Caller

_USER, _GROUP, _UID = "impersonate-user", "impersonate-group", "impersonate-uid"


def actor(request: ApiRequest, authorizer: Rbac) -> Caller | None:
    """The user that the request acts as: its caller, or the user its headers name; None when the
    caller may not act as that user.

    Raises `Refusal` 400 for groups or a uid without a user.
    """
    name = request.headers.get(_USER, "")
    groups = tuple(
        group.strip() for group in request.headers.get(_GROUP, "").split(",") if group.strip()
    )
    uid = request.headers.get(_UID, "")
    if not name:
        if groups or uid:
            raise refusals.bad_request(
                "impersonation of groups or uids without a user is not allowed"
            )
        return request.caller
    space, _, account = (
        name.removeprefix(SERVICE_ACCOUNT).partition(":") if _is_account(name) else ("", "", "")
    )
    if account:
        wanted = [
            Attributes("impersonate", resource="serviceaccounts", namespace=space, name=account)
        ]
    else:
        wanted = [Attributes("impersonate", resource="users", name=name)]
    wanted += [Attributes("impersonate", resource="groups", name=group) for group in groups]
    if uid:
        wanted.append(Attributes("impersonate", "authentication.k8s.io", "uids", name=uid))
    if not all(authorizer.decide(request.caller, header).allowed for header in wanted):
        return None
    if account and not groups:
        groups = account_groups(space)
    elif name != "system:anonymous" and "system:authenticated" not in groups:
        groups = (*groups, "system:authenticated")
    return Caller(name, groups, uid)


def verb_on(name: str, verb: str) -> str:
    """The verb that a refusal of acting as `name` names."""
    return f"impersonate-on:{'serviceaccount' if _is_account(name) else 'user-info'}:{verb}"


def _is_account(name: str) -> bool:
    return name.startswith(SERVICE_ACCOUNT) and name.count(":") == 3

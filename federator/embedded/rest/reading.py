"""GET of one object and of a collection: selectors, versions and chunks as a real API server treats
them.

Called by `api` after routing and permission. Lists are consistent: a chunked list shows one version
from its first chunk to its last, rebuilt from the store's history.
"""

import base64
import binascii
import bisect
import itertools
from typing import Any

import msgspec

from federator.embedded.rest import bodies, field_selectors, views
from federator.embedded.schema import event_groups
from federator.embedded.storage import field_errors, refusals
from federator.embedded.storage.field_errors import FieldError
from federator.embedded.storage.messages import Answer, ApiRequest, Target
from federator.embedded.storage.revisions import JsonObject, Revision
from federator.embedded.storage.store import Store

_WHATEVER_IS = -1
"""As the version of a continue token: go on with the collection as it is now."""
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder"
    " of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were"
    " created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def get(store: Store, request: ApiRequest, target: Target) -> Answer:
    """One object, or 404."""
    revision = existing(store, target)
    parse_version(request.param("resourceVersion") or "0")
    check_not_ahead(store, request.param("resourceVersion"))
    return Answer(body=views.view(request, target.info, store.clock.now).single(revision))


def existing(store: Store, target: Target) -> Revision:
    """The stored object that a path names, or `Refusal` 404."""
    revision = event_groups.get(store, target.info, target.space, target.name)
    if revision is None:
        raise refusals.not_found(target.info.group, target.info.plural, target.name)
    return revision


def listing(store: Store, request: ApiRequest, target: Target) -> Answer:
    """A collection, whole or the next chunk of it."""
    view = views.view(request, target.info, store.clock.now)
    limit = _limit(request)
    labels, fields = request.param("labelSelector"), request.param("fieldSelector")
    field_selectors.predicate(target.info, labels, "")
    field_selectors.parse_fields(fields)
    if "sendInitialEvents" in request.query:
        why = "sendInitialEvents is forbidden for list"
        raise list_options(field_errors.forbidden("sendInitialEvents", why))
    _check_match(request)
    matches = field_selectors.predicate(target.info, labels, fields)
    number, after, revisions = _versions(store, request, target)
    metadata: JsonObject = {"resourceVersion": str(number)}
    if not target.info.is_builtin and not view.form:
        # Lists of custom resources always say it.
        metadata["continue"] = ""
    if after is not None:
        revisions = revisions[
            bisect.bisect_right(revisions, after, key=lambda revision: revision.key) :
        ]
    if request.param("resourceVersion") == "0" and not request.param("continue"):
        # Answered from the cache, which does not cut lists into chunks.
        limit = 0
    if matches is not None:
        matching = (revision for revision in revisions if matches(revision.obj))
        # No further than to know whether there is more: the next chunk would look at the rest
        # again.
        revisions = list(itertools.islice(matching, limit + 1 if limit > 0 else None))
    if 0 < limit < len(revisions):
        remaining, revisions = len(revisions) - limit, revisions[:limit]
        metadata["continue"] = _token(number, revisions[-1].key)
        if matches is None:
            # A real server does not count what a selector would leave.
            metadata["remainingItemCount"] = remaining
    return Answer(body=view.many(revisions, metadata))


def _versions(
    store: Store, request: ApiRequest, target: Target
) -> tuple[int, tuple[str, str] | None, list[Revision]]:
    """(version, key to start after, all objects of the collection at that version)."""
    home = event_groups.home(target.info)
    token, given = request.param("continue"), request.param("resourceVersion")
    match = request.param("resourceVersionMatch")
    if token:
        if given not in {"", "0"}:
            raise refusals.bad_request(
                "specifying resource version is not allowed when using continue"
            )
        number, after = _parse_token(token)
        if number == _WHATEVER_IS:
            return store.revision, after, store.items(home, target.namespace)
        try:
            return number, after, store.items_at(home, target.namespace, number)
        except refusals.Refusal:
            refusal = refusals.expired(_CONTINUE_EXPIRED)
            # For clients that prefer an inconsistent rest to a new list from the start.
            refusal.metadata = {"continue": _token(_WHATEVER_IS, after)}
            raise refusal from None
    number = check_not_ahead(store, given)
    if match == "Exact":
        try:
            return number, None, store.items_at(home, target.namespace, number)
        except refusals.Refusal as error:
            raise refusals.expired(
                "The resourceVersion for the provided list is too old."
            ) from error
    return store.revision, None, _current(store, request, target)


def _current(store: Store, request: ApiRequest, target: Target) -> list[Revision]:
    home = event_groups.home(target.info)
    name = field_selectors.only_name(request.param("fieldSelector"))
    if name is not None and (target.namespace is not None or not target.info.namespaced):
        revision = store.get(home, target.space, name)
        return [] if revision is None else [revision]
    return store.items(home, target.namespace)


def check_not_ahead(store: Store, text: str) -> int:
    """The version a request names (0 when it names none). Raises 400 for nonsense, 504 for one that
    is yet to come."""
    if not text:
        return 0
    number = parse_version(text, lists=True)
    if number > store.revision:
        raise too_large(number, store.revision)
    return number


def parse_version(text: str, *, lists: bool = False) -> int:
    """A resourceVersion of a query as an integer. Raises `Refusal`, 400 for lists, else 500, as a
    real server does."""
    if not (text.isascii() and text.isdigit()):
        why = (
            f'resourceVersion: Invalid value: "{text}":'
            f' strconv.ParseUint: parsing "{text}": invalid syntax'
        )
        if lists:
            raise refusals.bad_request(f"invalid resource version: {why}")
        raise refusals.Refusal(500, "", why)
    return int(text)


def too_large(number: int, current: int) -> refusals.Refusal:
    """504: a version from the future."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {number}, current: {current}"
    return refusals.Refusal(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def _check_match(request: ApiRequest) -> None:
    match, given, token = (
        request.param(name) for name in ("resourceVersionMatch", "resourceVersion", "continue")
    )
    if not match:
        return
    why = ""
    if token:
        why = "resourceVersionMatch is forbidden when continue is provided"
    elif match not in {"Exact", "NotOlderThan"}:
        supported = ("Exact", "NotOlderThan", "")
        raise list_options(field_errors.not_supported("resourceVersionMatch", match, supported))
    elif not given:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match == "Exact" and given == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if why:
        raise list_options(field_errors.forbidden("resourceVersionMatch", why))


def list_options(*errors: FieldError) -> refusals.Refusal:
    """422 for query parameters of a list or watch."""
    return refusals.invalid("meta.k8s.io", "ListOptions", "", errors)


def _limit(request: ApiRequest) -> int:
    text = request.param("limit", "0")
    try:
        return int(text)
    except ValueError:
        why = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise refusals.bad_request(why) from None


def _token(number: int, key: tuple[str, str]) -> str:
    body = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": number, "start": f"{key[0]}/{key[1]}"})
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def _parse_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        body: Any = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        space, _, name = str(body["start"]).partition("/")
        return int(body["rv"]), (space, name)
    except msgspec.DecodeError:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        raise _bad_token(bodies.json_trouble(raw)[0]) from None
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise _bad_token(str(error)) from None


def _bad_token(why: str) -> refusals.Refusal:
    return refusals.bad_request(f"invalid continue token: continue key is not valid: {why}")

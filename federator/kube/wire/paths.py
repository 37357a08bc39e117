"""Where things live on an API server: paths and selector queries, every segment percent-encoded.

Used by the client only. A name that could climb out of its segment is refused here, before a byte
is sent.
"""

import re
from urllib.parse import quote

from federator.kube import errors
from federator.model.steps import ObjectRef

_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")
"""What stands for itself in a path, as nearly every name does: `quote` takes its time to see that.
"""


def segment(text: str) -> str:
    """One path segment, encoded. Raises `errors.Invalid` for an empty one and for dots that mean
    another directory."""
    if text in ("", ".", ".."):
        raise errors.Invalid(f"{text!r} cannot be part of a path.", reason="BadRequest")
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")


def collection(api_version: str, plural: str, namespace: str = "") -> str:
    """The path of a collection: `/api/v1/pods`, `/apis/apps/v1/namespaces/web/deployments`."""
    group, slash, version = api_version.rpartition("/")
    root = f"/apis/{segment(group)}/{segment(version)}" if slash else f"/api/{segment(version)}"
    if namespace:
        return f"{root}/namespaces/{segment(namespace)}/{segment(plural)}"
    return f"{root}/{segment(plural)}"


def single(ref: ObjectRef, subresource: str = "") -> str:
    path = f"{collection(ref.api_version, ref.plural, ref.namespace)}/{segment(ref.name)}"
    return f"{path}/{segment(subresource)}" if subresource else path


def selection(label_selector: str, field_selector: str) -> tuple[tuple[str, str], ...]:
    """Query parameters for the selectors that are not empty."""
    given = (("labelSelector", label_selector), ("fieldSelector", field_selector))
    return tuple((name, value) for name, value in given if value)

"""The table of expanders: from a slice in a member to the native objects it stands for. One row per kind.

Called by the member process, which applies what comes out by server-side apply. A plain Deployment is its own native
object and has no row.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.jobset import jobsets, pinterestjobset
from federator.kinds.pods.priorities import PRIORITY_CLASSES
from federator.kinds.service import pinterestservice, services
from federator.model import shards

__all__ = ["EXPANDERS", "PRIORITY_CLASSES", "needless", "onto"]

Expander = Callable[[Obj, Obj | None], tuple[dict[str, Any], ...]]
"""(slice, RuntimeProfile object or None) -> native objects, those that others need first. Raises FieldError."""

EXPANDERS: Final[Mapping[str, Expander]] = {
    pinterestservice.KIND: services.expand,
    pinterestjobset.KIND: jobsets.expand,
}

_JOB_CHANGEABLE: Final = ("parallelism", "suspend")


def onto(wanted: Obj, live: Obj) -> dict[str, Any]:
    """What can still be asked of an object that exists: a Job's pods and completions are fixed when it is made.

    So a changed template reaches the Jobs made from now on; shards that run, or are done, keep the one they have.
    """
    if raw.text(wanted, "kind") != "Job":
        return dict(wanted)
    fixed = raw.mapping(live, "spec")
    asked = raw.mapping(wanted, "spec")
    spec = {name: value if name in _JOB_CHANGEABLE else fixed.get(name, value) for name, value in asked.items()}
    return {**wanted, "spec": spec}


def needless(slice_obj: Obj, native: Obj) -> bool:
    """Whether this native must not be made (anew): a Job whose shards are all done. One that exists stays, with its
    logs."""
    if raw.text(native, "kind") != "Job":
        return False
    piece = jobsets.piece_of(raw.mapping(native, "metadata", "annotations"))
    return piece is not None and not shards.minus((piece,), jobsets.done(slice_obj))

"""What of a workload its pods are made from: a change of it is a roll-out, anything else is not.

The member says by `digest` which of these its `updatedReplicas` count; the hub keeps them as
ControllerRevisions; undo writes them back. Pure and total, like all verbs.
"""

import hashlib
from typing import Any, Final

import msgspec

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs

FIELDS: Final = (
    "template",
    "config",
    "sidecars",
    "iamRole",
    "runtimeProfile",
    "startupTaint",
    "runtime",
)
"""Fields of spec that undo writes back, for all kinds; a plain Deployment has the first only."""


def of(obj: Obj) -> dict[str, Any]:
    """Those fields of a workload, or of its slice, that it has."""
    spec = raw.mapping(obj, "spec")
    runtime = raw.mapping(spec, "runtime")
    if runtime:  # its version is not among them: the hash of the profile is
        named = {name: value for name, value in runtime.items() if value and name != "version"}
        spec = {**spec, "runtime": named}
    return {name: spec[name] for name in FIELDS if spec.get(name) not in (None, {}, "")}


def of_native(obj: Obj) -> dict[str, Any]:
    """The same of a kind with a spec that is not ours."""
    return {"template": raw.mapping(obj, "spec", "template")}


def digest_of(parts: Obj, *more: str) -> str:
    """Does not depend on the order of keys. `more` goes into it too."""
    text = msgspec.json.encode([parts, *more], order="sorted")
    return "t" + hashlib.blake2b(text, digest_size=8).hexdigest()


def digest(slice_obj: Obj) -> str:
    """Of all that the pods of a slice of our kinds are made from, the tier (their priority class)
    and the pinned RuntimeProfile included.
    """
    mark = verbs.decode_mark(raw.at(slice_obj, "spec", "slice"))
    pin = mark.rules.profile if mark is not None else verbs.NO_PROFILE
    return digest_of(of(slice_obj), raw.text(slice_obj, "spec", "tier"), *pin)

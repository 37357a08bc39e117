"""Reading request bodies: JSON, YAML or protobuf, patches and delete options, with a real server's
words for nonsense.

Nothing here knows schemas; what comes out is a plain tree that belongs to the caller.
"""

import json
import math
from typing import Any

import msgspec
import yaml

from federator.embedded.apply.patches import go_type
from federator.embedded.schema import protobuf, pruning
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import ApiRequest
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject
from federator.kube import kubeyaml

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
YAML_NODES_MAX = 1_000_000
YAML_DEPTH_MAX = 200
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError)
_MERGE = "application/merge-patch+json"
_YAML = frozenset({"application/yaml", "application/x-yaml", "application/vnd.kubernetes.yaml"})


def media_type(request: ApiRequest) -> str:
    """The Content-Type without its parameters, in lower case; JSON when there is none."""
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


def read_object(request: ApiRequest, info: ResourceInfo) -> JsonObject:
    """The object of a POST or PUT. Raises `Refusal` 400 or 415."""
    kind = media_type(request)
    if kind in _YAML:
        value = _yaml(request.body, lambda why, head: _unrecognized(info, f"yaml: {why}", head))
    elif kind == "application/json":
        try:
            value = _decode(request.body)
        except _BROKEN:
            why, head = json_trouble(request.body)
            raise _unrecognized(
                info, f"couldn't get version/kind; json parse error: {why}", head
            ) from None
    elif kind == protobuf.MEDIA_TYPE:
        try:
            value = protobuf.decode(request.body)
        except protobuf.Undecodable as error:
            raise _unrecognized(info, str(error), request.body[:32].hex()) from None
    else:
        raise refusals.unsupported_media(ACCEPTED)
    if not isinstance(value, dict):
        why = f"json: cannot unmarshal {go_type(value)} into Go value of type struct"
        raise _unrecognized(
            info,
            f"couldn't get version/kind; json parse error: {why}",
            request.body[:64].decode("utf-8", "replace"),
        )
    return value


def duplicates(request: ApiRequest, value: Any) -> list[str]:
    """Fields given twice in a JSON body.

    What encodes back to the same bytes cannot hold any, which is the cheap way out.
    """
    if media_type(request) != "application/json" or _encode(value) == request.body:
        return []
    return pruning.duplicate_fields(request.body)


def read_patch(request: ApiRequest, media: str) -> Any:
    """The JSON of a patch; whether it is a patch of that form is for `patch_document` to say.
    Raises `Refusal` 400."""
    if media == "application/apply-patch+yaml":
        # What begins as JSON is taken for JSON first, and is then read as YAML anyway.
        prefix = "encoding patch: yaml: "
        if request.body.lstrip().startswith(b"{"):
            prefix = "decoding patch: error converting YAML to JSON: yaml: "
        return _yaml(request.body, lambda why, _: refusals.bad_request(f"error {prefix}{why}"))
    try:
        return _decode(request.body)
    except _BROKEN:
        raise refusals.bad_request("invalid JSON patch") from None


def patch_document(request: ApiRequest, media: str, value: Any) -> Any:
    """The same if it is a list of operations or an object, as its form asks. Raises `Refusal`
    400."""
    if media == "application/apply-patch+yaml":
        if not isinstance(value, dict):
            raise refusals.bad_request(
                "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot"
                f" unmarshal {go_type(value)} into Go value of type map[string]interface {{}}"
            )
        return value
    # With unknown fields ignored, a real server reads the document with another library, which
    # has its own error texts.
    ignoring = request.param("fieldValidation") == "Ignore"
    lenient = media == "application/json-patch+json" and ignoring
    prefix = (
        ""
        if media == "application/strategic-merge-patch+json" or lenient
        else "error decoding patch: "
    )
    is_list = media == "application/json-patch+json"
    target = "[]handlers.jsonPatchOp" if is_list else "map[string]interface {}"
    target = "jsonpatch.Patch" if lenient else target
    if value is None and media == _MERGE:
        raise refusals.bad_request("Invalid JSON Patch")
    if value is None:
        # A null is no operations, or no changes.
        return [] if is_list else {}
    if isinstance(value, str | int | float) and media == _MERGE and ignoring:
        raise refusals.bad_request("Invalid JSON Patch")
    if not isinstance(value, list if is_list else dict):
        raise refusals.bad_request(
            f"{prefix}json: cannot unmarshal {go_type(value)} into Go value of type {target}"
        )
    odd = (
        next((step for step in value if not isinstance(step, dict | None)), None)
        if lenient
        else None
    )
    if odd is not None:
        text = f"json: cannot unmarshal {go_type(odd)} into Go value of type jsonpatch.Operation"
        raise refusals.bad_request(text)
    return value


def read_options(request: ApiRequest) -> JsonObject:
    """The DeleteOptions in a body; empty when there is none. Raises `Refusal` 400."""
    if not request.body.strip():
        return {}
    if media_type(request) in _YAML:
        value = _yaml(request.body, lambda why, _: refusals.bad_request(f"yaml: {why}"))
    elif request.body.startswith(b"k8s\x00"):
        try:
            value = protobuf.decode(request.body)
        except protobuf.Undecodable as error:
            raise refusals.bad_request(str(error)) from None
    else:
        try:
            value = _decode(request.body)
        except _BROKEN:
            raise refusals.bad_request(json_trouble(request.body)[0]) from None
    if not isinstance(value, dict):
        raise refusals.bad_request(
            f"json: cannot unmarshal {go_type(value)} into Go value of type v1.DeleteOptions"
        )
    return value


def json_trouble(body: bytes) -> tuple[str, str]:
    """Why `body` is no JSON, in the words of Go's decoder, and its beginning as messages show
    it."""
    text = body.decode("utf-8", "replace")
    if not text.strip():
        return "unexpected end of JSON input", "<empty>"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text):
            return "unexpected end of JSON input", text[:128]
        looking = (
            "beginning of object key string"
            if "property name" in error.msg
            else "beginning of value"
        )
        return f"invalid character '{text[error.pos]}' looking for {looking}", text[:128]
    except ValueError:  # Python reads no integer of more than 4300 digits
        return "number out of range", text[:128]
    return "invalid JSON", text[:128]


def _yaml(body: bytes, refuse: Any) -> Any:
    try:
        # Most of what is called YAML is JSON (kubectl's and our own applies), which is far cheaper
        # to read.
        return _decode(body)
    except _BROKEN:
        pass
    try:
        _scan(body)
        return _plain(yaml.load(body, Loader=kubeyaml.Loader), [YAML_NODES_MAX])
    except (yaml.YAMLError, TypeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        why = f"line {mark.line + 1}: {problem}" if mark is not None else problem
        raise refuse(why, body[:64].hex()) from None


def _scan(body: bytes) -> None:
    """Raises ValueError for what would take for ever, or the whole stack, to be built: merge keys
    that double what they merge, aliases that stand for trees without end, deep nests. Parsing alone
    does neither.
    """
    weights: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]
    for event in yaml.parse(body, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > YAML_DEPTH_MAX:
                raise ValueError("exceeded max depth")
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, weight = open_nodes.pop()
        elif isinstance(event, yaml.ScalarEvent):
            anchor, weight = event.anchor, 1
        elif isinstance(event, yaml.AliasEvent):
            anchor, weight = None, weights.get(event.anchor or "", 1)
        else:
            continue
        if anchor:
            weights[anchor] = weight
        outer, sum_so_far = open_nodes[-1]
        if sum_so_far + weight > YAML_NODES_MAX:
            raise ValueError("document contains excessive aliasing")
        open_nodes[-1] = (outer, sum_so_far + weight)


def _plain(value: Any, left: list[int]) -> Any:
    """A YAML value as the JSON a client would have sent. `left` bounds the nodes: aliases can stand
    for trees without end. Raises ValueError.
    """
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("document contains excessive aliasing")
    if isinstance(value, dict):
        return {_key(key): _plain(inner, left) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, left) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("json: unsupported value")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"a value of type {type(value).__name__} has no place in JSON")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise ValueError(f"a key of type {type(key).__name__} has no place in JSON")


def _unrecognized(info: ResourceInfo, why: str, head: str) -> refusals.Refusal:
    return refusals.bad_request(
        f"the object provided is unrecognized (must be of type {info.kind}): {why} ({head})"
    )

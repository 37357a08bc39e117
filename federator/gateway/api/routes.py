"""The requests that the gateway answers, as a table: the port routes by it and the OpenAPI document
is made from it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from federator.api.common import Model
from federator.gateway.api import models, problems
from federator.gateway.api.problems import Field, Problem
from federator.process import webpaths

QUERY_MAX: Final = 2048
LIMIT_MAX: Final = 200
LIMIT: Final = 50
TAIL_MAX: Final = 10_000
_COUNT_MAX: Final = 10**8
STATES: Final = (
    "Pending",
    "Queued",
    "Placed",
    "Running",
    "Succeeded",
    "Failed",
    "Incomplete",
    "Superseded",
)
_COLLECTION: Final = "/v1/workflows/{namespace}/{name}/submissions"
_ONE: Final = f"{_COLLECTION}/{{id}}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query string."""

    name: str
    schema: Mapping[str, Any]
    description: str


_FLAG: Final = {"type": "string", "enum": ["true", "false"]}
_NAME: Final = {"type": "string", "pattern": "^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$"}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": _COUNT_MAX}
OF_PODS: Final = (
    Parameter("cluster", _NAME, "Only the pods in this cluster."),
    Parameter("pod", _NAME, "Only this pod."),
    Parameter("shard", _COUNT, "Only the pods that ran this shard of a job set."),
    Parameter("container", _NAME, "The container; without it the first one of the template."),
    Parameter(
        "tail",
        {"type": "integer", "minimum": 1, "maximum": TAIL_MAX, "default": 10},
        "Lines of each pod.",
    ),
    Parameter("since_seconds", _COUNT, "Only lines that are at most so many seconds old."),
    Parameter("previous", _FLAG, "Logs of the previous containers."),
    Parameter("timestamps", _FLAG, "Each line begins with its time."),
)
"""Which pods, and how much of their logs; named as the query port names them."""


@dataclass(frozen=True, slots=True)
class Route:
    """One row."""

    id: str
    """Its operationId, and what it is called in the audit and in metrics."""
    method: str
    path: str
    summary: str
    answers: Mapping[int, type[Model] | None]
    """Status -> what the answer holds; None for a stream of events."""
    refusals: tuple[int, ...]
    request: type[Model] | None = None
    parameters: tuple[Parameter, ...] = ()

    def match(self, path: str) -> dict[str, str] | None:
        """The parts of a percent-encoded path by name; None when it is another one."""
        return webpaths.matched(self.path, path)


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "submit",
        "POST",
        _COLLECTION,
        "Submit a version of a workflow. With dryRun the verdict alone is given.",
        {200: models.Submission, 201: models.Submission},
        (400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503),
        request=models.SubmissionRequest,
    ),
    Route(
        "list",
        "GET",
        _COLLECTION,
        "List the submissions of a workflow, the newest first.",
        {200: models.SubmissionList},
        (400, 401, 403, 404, 429, 503),
        parameters=(
            Parameter("state", {"type": "string", "enum": list(STATES)}, "Only these."),
            Parameter(
                "user", {"type": "string", "minLength": 1, "maxLength": 512}, "Only of this user."
            ),
            Parameter(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
                "Submissions on one page.",
            ),
            Parameter(
                "after",
                {"type": "string", "pattern": models.ID_PATTERN},
                "The `next` of the page before.",
            ),
        ),
    ),
    Route(
        "get",
        "GET",
        _ONE,
        "Show a submission: its objects, where they run, and their place in the queue.",
        {200: models.Submission},
        (400, 401, 403, 404, 429, 503),
    ),
    Route(
        "events",
        "GET",
        f"{_ONE}/events",
        "Follow a submission as server-sent events, one `submission` for each change.",
        {200: None},
        (400, 401, 403, 404, 429, 503),
    ),
    Route(
        "logs",
        "GET",
        f"{_ONE}/logs",
        "Show the ends of the logs of the pods of one object of a submission.",
        {200: models.Logs},
        (400, 401, 403, 404, 429, 502, 503),
        parameters=(
            Parameter(
                "object",
                {"type": "string", "pattern": "^[A-Za-z]{1,63}/[-.a-z0-9]{1,253}$"},
                "KIND/NAME of the object; without it the first one that has pods.",
            ),
            *OF_PODS,
        ),
    ),
    Route(
        "cancel",
        "DELETE",
        _ONE,
        "Cancel a submission: delete the objects that it made.",
        {200: models.Submission},
        (400, 401, 403, 404, 409, 429, 503),
    ),
)


def matching(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The row of a request, and the parts of its path. Raises `Problem` 404 or 405."""
    matching = [(route, given) for route in ROUTES if (given := route.match(path)) is not None]
    if not matching:
        raise Problem(404, "NotFound", "There is no such address; see /openapi.json.")
    for route, given in matching:
        if route.method == method:
            return route, given
    allowed = ", ".join(sorted({route.method for route, _ in matching}))
    raise Problem(405, "MethodNotAllowed", f"This address takes {allowed}.", allow=allowed)


def parameters(route: Route, query: str) -> dict[str, str]:
    """The parameters of a query string. Raises `Problem` 400 for one that is unknown, given twice
    or not as its schema says."""
    try:
        if len(query) > QUERY_MAX:
            raise ValueError
        pairs = parse_qsl(
            query,
            keep_blank_values=True,
            strict_parsing=bool(query),
            max_num_fields=16,
            errors="strict",
        )
    except ValueError:
        raise Problem(400, "InvalidRequest", "The query string cannot be read.") from None
    known = {each.name: each for each in route.parameters}
    given: dict[str, str] = {}
    for name, text in pairs:
        if name not in known:
            accepted = ", ".join(known) or "none"
            bad = Field(name[:60], f"there is no such parameter; there is {accepted}")
        elif name in given:
            bad = Field(name, "is given twice")
        elif message := _problem(known[name].schema, text):
            bad = Field(name, message)
        else:
            given[name] = text
            continue
        raise problems.of_fields("InvalidRequest", [bad], 400)
    return given


def _problem(schema: Mapping[str, Any], text: str) -> str:
    """Why a value is refused; "" when it is not. The few keywords that `ROUTES` uses."""
    if schema["type"] == "integer":
        low, high = schema["minimum"], schema["maximum"]
        whole = text.isascii() and text.isdecimal() and len(text) < 10
        return "" if whole and low <= int(text) <= high else f"must be from {low} to {high}"
    if "enum" in schema and text not in schema["enum"]:
        return f"must be one of {', '.join(schema['enum'])}"
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 512):
        return (
            f"must have {schema.get('minLength', 0)} to {schema.get('maxLength', 512)} characters"
        )
    if "pattern" in schema and not re.fullmatch(schema["pattern"], text):
        return f"must match {schema['pattern']}"
    return ""

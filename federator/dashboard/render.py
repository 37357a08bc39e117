"""HTML and JSON of view models. Every text from outside is text: templates escape it, and write
characters that move or reverse what is read as their escapes."""

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from federator.model import plaintext
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity

STATIC: Final[Mapping[str, str]] = {
    "dashboard.css": "text/css; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "htmx.LICENSE.txt": "text/plain; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""File -> content type. Nothing else is served from the folder."""
SCRIPT: Final = "htmx.min.js"
SCRIPT_INTEGRITY: Final = "sha384-Qp9rdC8H7EqOoX+nR0P3RPG2Noji+qdwJlGpfzwQJsfOpp3sGwIdSP9xO3+UlEhn"
"""Of htmx 4.0.1, from npm. A page with another script does not run it."""


def visible(value: Any) -> Any:
    """What a template puts out: text with every unsafe character made visible."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return plaintext.visible(value)
    return value


def amount(resource: str, text: str) -> str:
    """An amount of a resource for comparing by eye; a text that is none stays as it is."""
    try:
        return quantity.readable(resource, text)
    except FieldError:
        return text


@functools.cache
def environment() -> Environment:
    """The templates."""
    made = Environment(
        loader=PackageLoader("federator.dashboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["raw_lines"] = lambda text: Markup("\n").join(
        plaintext.visible(line, keep="\t") for line in text.split("\n")
    )
    made.globals["amount"] = amount
    made.globals["integrity"] = SCRIPT_INTEGRITY
    made.globals["live"] = f"/static/live.js?v={digest('live.js')}"
    made.globals["live_integrity"] = integrity("live.js")
    made.globals["style"] = f"/static/dashboard.css?v={digest('dashboard.css')}"
    made.globals["script"] = f"/static/{SCRIPT}?v={digest(SCRIPT)}"
    return made


def html(template: str, frame: Mapping[str, Any], view: Mapping[str, Any]) -> bytes:
    """A page. `frame`: what every page has (the reader, navigation, warnings)."""
    page = environment().get_template(template)
    return page.render(frame=frame, view=view).encode("utf-8", "backslashreplace")


def data(view: Mapping[str, Any]) -> bytes:
    """The view model for programs. Texts keep their value, with the escapes of JSON."""
    return json.dumps(view, ensure_ascii=True, default=str).encode("ascii")


@functools.cache
def static(name: str) -> bytes:
    """A static file. KeyError for one that is not served."""
    STATIC[name]
    return resources.files("federator.dashboard").joinpath("static", name).read_bytes()


def integrity(name: str) -> str:
    """Of a script of ours, as pages name it."""
    return f"sha384-{base64.b64encode(hashlib.sha384(static(name)).digest()).decode()}"


@functools.cache
def digest(name: str) -> str:
    """Changes when the file does."""
    return hashlib.sha256(static(name)).hexdigest()[:12]

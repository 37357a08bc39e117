"""The fields of a form that a page of this origin has sent, with or without files."""

import email.parser
import email.policy
from collections.abc import Iterable, Iterator, Mapping
from email.message import Message
from typing import Final
from urllib.parse import parse_qsl

from federator.dashboard.routes.route import RequestRefused
from federator.kube.tlsserver import Incoming

FIELDS_MAX: Final = 16
_PLAIN, _PARTS = "application/x-www-form-urlencoded", "multipart/form-data"
_UNREADABLE: Final = "The form cannot be read."


async def read(request: Incoming, most: int) -> dict[str, str]:
    """Field -> text, from a body of at most so many bytes. The name of an uploaded file is the
    field `NAME.filename`. Raises `RequestRefused`, and `BodyRefused` for a body that is too
    long."""
    if not same_origin(request.headers):
        raise RequestRefused(403, "The form comes from another origin. Nothing was changed.")
    stated = request.headers.get("content-type", "")
    kind = stated.partition(";")[0].strip().lower()
    if kind not in (_PLAIN, _PARTS):
        raise RequestRefused(400, "The body must be a form.")
    assert request.read_body is not None
    body = await request.read_body(most)
    try:
        # a browser sends the lines of a text with CRLF
        return {name: text.replace("\r\n", "\n") for name, text in _fields(kind, stated, body)}
    except ValueError:
        raise RequestRefused(400, _UNREADABLE) from None


def _fields(kind: str, stated: str, body: bytes) -> Iterable[tuple[str, str]]:
    if kind == _PARTS:
        return _parts(stated, body)
    return parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX)


def _parts(stated: str, body: bytes) -> Iterator[tuple[str, str]]:
    """Raises ValueError for what is no form of at most `FIELDS_MAX` fields in UTF-8."""
    head = f"Content-Type: {stated}\r\n\r\n".encode("ascii")
    parts = email.parser.BytesParser(policy=email.policy.compat32).parsebytes(head + body)
    fields = parts.get_payload()
    if not isinstance(fields, list) or parts.defects or len(fields) > FIELDS_MAX:
        raise ValueError
    for part in fields:
        if not isinstance(part, Message):
            raise ValueError
        name, text = part.get_param("name", header="content-disposition"), _text(part)
        if not isinstance(name, str) or not name:
            raise ValueError
        yield name, text
        if isinstance(filename := part.get_filename(), str):
            yield f"{name}.filename", filename


def _text(part: Message) -> str:
    body = part.get_payload(decode=True)
    if not isinstance(body, bytes):
        raise ValueError  # a part with parts
    return body.decode()


def same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from a page of this server, as the browser says. Browsers send Origin
    with every POST; a request without is refused."""
    origin, host = headers.get("origin", ""), headers.get("host", "")
    site = headers.get("sec-fetch-site", "same-origin")
    return bool(host) and origin.partition("://")[2] == host and site == "same-origin"

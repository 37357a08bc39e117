"""Requests to the gateway, without a kubeconfig: address, token and authorities come from options
or environment variables. Used by `submit` and `submissions`.

Exit codes: 1 the submission is refused or has failed, 2 the command line is wrong, 3 the token does
not count or gives no right, 4 the gateway, the leader or the artifact store does not answer.
"""

import asyncio
import contextlib
import json
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.kube.wire.http import HttpTransport

F = TypeVar("F", bound=Callable[..., Any])
REFUSED, DENIED, UNAVAILABLE = 1, 3, 4
ANSWER_S: Final = 60.0
BODY_MAX: Final = 8 * 1024 * 1024
PATIENCE_S: Final = 60.0
"""A gateway that is busy or away is asked again for so long, in seconds."""
AGAIN_S: Final = 2.0
POLL_S: Final = 2.0
DONE: Final = frozenset({"Running", "Succeeded"})
FAILED: Final = frozenset({"Failed", "Superseded"})


def options(command: F) -> F:
    """Adds how to reach the gateway, the namespace, and the format of the output."""
    command = click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        help="Output format.",
    )(command)
    return connection(command)


def waiting(command: F) -> F:
    """Adds whether to wait for the submission, and for how long."""
    command = click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(1),
        default=600.0,
        show_default=True,
        help="Seconds to wait.",
    )(command)
    return click.option("--wait", "waits", is_flag=True, help="Wait until it runs, or has ended.")(
        command
    )


def connection(command: F) -> F:
    """Adds how to reach the gateway, and the namespace."""
    command = click.option(
        "-n", "--namespace", required=True, envvar="FEDERATOR_NAMESPACE", help="Namespace."
    )(command)
    command = click.option(
        "--ca-file",
        default="",
        envvar="FEDERATOR_CA_FILE",
        help="PEM authorities of the gateway's certificate (default: the machine's).",
    )(command)
    for name, variable, text in (
        ("--key-file", "FEDERATOR_KEY_FILE", "PEM key of the client certificate."),
        ("--cert-file", "FEDERATOR_CERT_FILE", "PEM client certificate, in place of a token."),
        ("--token-file", "FEDERATOR_TOKEN_FILE", "File with your token; - reads it from stdin."),
    ):
        command = click.option(name, default="", envvar=variable, help=text)(command)
    return click.option(
        "--gateway",
        "address",
        required=True,
        envvar="FEDERATOR_GATEWAY",
        help="Address of the gateway, https://HOST[:PORT].",
    )(command)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of the gateway."""

    status: int
    document: dict[str, Any]
    retry_after_s: float = AGAIN_S

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed in a moment. A 502 of the gateway itself says that
        the artifact store breaks its protocol, or wants other credentials; that of a proxy says
        that the gateway is away."""
        of_gateway = bool(self.document.get("title"))
        return self.status in (0, 429, 503) or (self.status == 502 and not of_gateway)


@dataclass(slots=True)
class Gateway:
    address: str
    namespace: str
    token: str = field(repr=False)
    """"" where a client certificate stands in for it."""
    ca_pem: bytes = b""
    cert_pem: bytes = field(default=b"", repr=False)
    key_pem: bytes = field(default=b"", repr=False)
    _transport: "HttpTransport | None" = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> "Gateway":
        """From the options of `connection`, which are taken out. Exits with an error for what
        cannot be used."""
        address, token_file, namespace, *files = (
            options.pop(name)
            for name in ("address", "token_file", "namespace", "ca_file", "cert_file", "key_file")
        )
        parts = urlsplit(address)
        loopback = parts.hostname in ("127.0.0.1", "::1", "localhost")
        if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
            common.fail("--gateway must be https://HOST[:PORT] (http on loopback only)", code=2)
        if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
            common.fail("--gateway must be https://HOST[:PORT]", code=2)
        if bool(files[1]) != bool(files[2]):
            common.fail("--cert-file and --key-file are needed together", code=2)
        if not token_file and not files[1]:
            common.fail("--token-file is needed, or --cert-file with --key-file", code=2)
        try:
            text = _text(token_file).strip() if token_file else ""
            pems = [Path(name).read_bytes() if name else b"" for name in files]
        except (OSError, UnicodeDecodeError) as bad:
            common.fail(f"the token or the certificates cannot be read: {bad}", code=2)
        if token_file and not text:
            common.fail("--token-file is empty", code=2)
        return cls(address.rstrip("/"), namespace, text, pems[0], pems[1], pems[2])

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator["Gateway"]:
        """With a connection."""
        from federator.kube.login import tls
        from federator.kube.wire.http import Endpoint, HttpTransport, StaticToken

        try:
            secure = self.address.startswith("https:")
            context = (
                tls.client_context(ca_pem=self.ca_pem, cert_pem=self.cert_pem, key_pem=self.key_pem)
                if secure
                else None
            )
        except ValueError as bad:
            common.fail(f"--ca-file or --cert-file: {bad}", code=2)
        self._transport = HttpTransport(
            Endpoint(self.address, tls=context, credentials=StaticToken(self.token))
        )
        try:
            yield self
        finally:
            await self._transport.close()

    def path(self, workflow: str, identity: str = "") -> str:
        """Of the submissions of a workflow, or of one."""
        parts = f"/v1/workflows/{quote(self.namespace, safe='')}/{quote(workflow, safe='')}"
        return f"{parts}/submissions/{quote(identity, safe='')}".rstrip("/")

    async def ask(
        self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The document of an answer. A gateway that is busy or does not answer is asked again for
        a while; every request may be repeated. Exits with an error for a refusal."""
        loop = asyncio.get_running_loop()
        until_s, said = loop.time() + PATIENCE_S, ""
        while True:
            answer = await self._once(method, path, body, query or {})
            if not answer.passes or loop.time() + answer.retry_after_s >= until_s:
                break
            if (sentence := f"{_sentence(answer)} Trying again.") != said:
                common.say(sentence, err=True)
                said = sentence
            await asyncio.sleep(answer.retry_after_s)
        if not 200 <= answer.status < 300:
            refuse(answer)
        return answer.document

    async def _once(self, method: str, path: str, body: Any, query: Mapping[str, Any]) -> Answer:
        from federator.kube import errors
        from federator.kube.wire.transport import Request

        assert self._transport is not None
        encoded = json.dumps(body).encode() if body is not None else b""
        headers = {"accept": "application/json"}
        if encoded:
            headers["content-type"] = "application/json"
        asked = f"{path}?{urlencode(query)}" if query else path
        try:
            response = await self._transport.request(
                Request(method, asked, (), headers, encoded, ANSWER_S, ANSWER_S)
            )
            try:
                text = await response.read(BODY_MAX)
            finally:
                await response.close()
        except errors.ApiError as trouble:
            return Answer(0, {"detail": f"The gateway does not answer: {trouble}"})
        try:
            document = json.loads(text)
        except ValueError:
            document = {}
        if not isinstance(document, dict) or not document:
            document = {"detail": f"The gateway's answer cannot be read (HTTP {response.status})."}
        after = response.headers.get("retry-after", "")
        wait_s = min(float(after), 30.0) if after.isdecimal() else AGAIN_S
        return Answer(response.status, document, max(wait_s, 0.5))


def _text(token_file: str) -> str:
    return sys.stdin.read() if token_file == "-" else Path(token_file).read_text("ascii")


def _sentence(answer: Answer) -> str:
    return str(answer.document.get("detail") or f"HTTP {answer.status}")


def refuse(answer: Answer) -> NoReturn:
    """Exits with the reasons of a refusal."""
    lines = [_sentence(answer)]
    listed = answer.document.get("errors") or []
    lines += [f"{each.get('path')}: {each.get('detail')}" for each in listed[1:]]
    code = {0: UNAVAILABLE, 401: DENIED, 403: DENIED, 429: UNAVAILABLE}.get(answer.status, REFUSED)
    verdict = answer.document.get("verdict")
    if verdict:
        common.show("\n".join(verdict_lines(verdict)))
    common.fail(*lines, code=UNAVAILABLE if answer.status >= 500 else code)


def verdict_lines(verdict: Mapping[str, Any]) -> list[str]:
    lines = []
    for each in verdict.get("workloads", []):
        where = ", ".join(f"{c['copies']} in {c['name']}" for c in each.get("clusters", []))
        line = f"{each['verdict']}: {each['kind']} {each['name']}"
        if where:
            line += f": {each.get('placed', 0)} of {each.get('desired', 0)} copies: {where}"
        lines.append(line)
        if (each["verdict"] != "placed" or each.get("missing")) and each.get("message"):
            lines.append(f"  {each['message']}")
        if queue := each.get("queue"):
            lines.append(f"  {queue_text(queue)}")
        for fix in each.get("fixes", []):
            lines.append(
                f"  fix: {fix['change']}{' (by an operator)' if fix['byOperator'] else ''}"
            )
            # The object itself is not stored: parameters or the workflow file change it.
            own = f"kubectl patch {each['kind'].lower()} {each['name']} "
            lines += [f"    {line}" for line in fix["commands"] if not line.startswith(own)]
    return lines


def queue_text(queue: Mapping[str, Any]) -> str:
    """A place in the queue for people."""
    text = f"position {queue['position']} in the queue, {queue['ahead']} ahead"
    if queue.get("from"):
        text += f"; expected to start between {queue['from']} and {queue['to']}"
    return text


def submission_lines(shown: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{shown['id']}  {shown['state']}  {shown['workflow']} {shown['version']}"
        f"  ({shown['submittedBy']}, {shown['submittedAt']})",
        f"  {shown['artifact']}@{shown['digest']}",
    ]
    for each in shown.get("objects", []):
        line = f"  {each['kind']} {each['name']}: {each['state']}"
        if each.get("desired"):
            line += f", {each['placed']} of {each['desired']} placed, {each['ready']} ready"
        if each.get("clusters"):
            line += f", in {each['clusters']} cluster{'' if each['clusters'] == '1' else 's'}"
        lines.append(line)
        if each.get("message"):
            lines.append(f"    {each['message']}")
        if each.get("queue"):
            lines.append(f"    {queue_text(each['queue'])}")
    return lines


async def waited(
    gateway: Gateway, workflow: str, identity: str, timeout_s: float
) -> dict[str, Any]:
    """The submission once it runs or has ended. Exits with an error if that takes too long, or if
    it fails."""
    loop = asyncio.get_running_loop()
    until_s, state = loop.time() + timeout_s, ""
    while True:
        shown = await gateway.ask("GET", gateway.path(workflow, identity))
        if shown["state"] != state:
            state = shown["state"]
            common.show("\n".join(submission_lines(shown)), err=True)
        if state in DONE:
            return shown
        if state in FAILED:
            common.fail(f"the submission {identity} is {state}", code=REFUSED)
        if loop.time() >= until_s:
            common.fail(
                f"the submission {identity} is {state} after {timeout_s:g} s; it goes on",
                code=UNAVAILABLE,
            )
        await asyncio.sleep(POLL_S)


def new_key() -> str:
    """A key for one run of a command: its repeated requests are one submission."""
    return secrets.token_hex(16)

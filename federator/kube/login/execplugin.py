"""Runs the credential plugin (`exec`) of a person's own kubeconfig, as client-go 1.37 does
(`plugin/pkg/client/auth/exec`).

The plugin gets the environment of this process, `env` of the kubeconfig and KUBERNETES_EXEC_INFO;
its stderr is that of this process, so that it can ask the person to log in. Called by connect.py.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from federator.kube.login.kubeconfig import Chosen, NotConfigured, shown
from federator.model import plaintext

RUN_S = 60.0
"""Longest time that a plugin may take, in seconds."""
INTERACTIVE_S = 600.0
"""The same for a plugin that may read from the terminal."""
_GROUP = "client.authentication.k8s.io"
_DEFAULT_MODE = {f"{_GROUP}/v1": "", f"{_GROUP}/v1beta1": "IfAvailable"}
"""The versions that are spoken, and the interactiveMode of each where the kubeconfig names none."""
_MODES = ("Never", "IfAvailable", "Always")
_CONFIG = f"{_GROUP}/exec"
"""The extension of a cluster that its plugin is given."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a plugin answered. Secrets do not show in its repr."""

    token: str = field(default="", repr=False)
    cert_pem: bytes = b""
    key_pem: bytes = field(default=b"", repr=False)
    expires_s: float | None = None
    """Seconds since the epoch after which it is asked again."""


class Plugin:
    """The plugin of one context. `proxy` is the one that the server is reached through. Raises
    `NotConfigured` for fields that kubectl refuses."""

    def __init__(self, chosen: Chosen, proxy: str = "") -> None:
        self._fields = chosen.user["exec"]
        self._plugin = f"The credential plugin (exec) of the user {shown(chosen.user_name)}"
        self._cluster = chosen.cluster
        self._proxy = proxy
        self._version = self._fields.get("apiVersion", "")
        self._mode = self._fields.get("interactiveMode") or _DEFAULT_MODE.get(self._version, "")
        if not self._fields.get("command"):
            raise NotConfigured(f"{self._plugin} has no command.")
        if self._version not in _DEFAULT_MODE:
            raise NotConfigured(
                f"{self._plugin} has the apiVersion {shown(self._version)}; accepted are"
                f" {' and '.join(_DEFAULT_MODE)}."
            )
        if self._mode not in _MODES:
            raise NotConfigured(f"{self._plugin} needs an interactiveMode: {', '.join(_MODES)}.")

    async def run(self) -> Credential:
        """Runs it once. Raises `NotConfigured`."""
        interactive = self._is_interactive()
        info = await asyncio.to_thread(self._info, interactive)
        environment = {
            **os.environ,
            **dict(self._fields.get("env", ())),
            "KUBERNETES_EXEC_INFO": info,
        }
        try:
            process = await asyncio.create_subprocess_exec(
                self._fields["command"],
                *self._fields.get("args", ()),
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except (OSError, ValueError) as exc:
            raise NotConfigured(self._not_started(exc)) from exc
        try:
            async with asyncio.timeout(INTERACTIVE_S if interactive else RUN_S):
                written, _ = await process.communicate()
        except TimeoutError as exc:
            raise NotConfigured(f"{self._plugin} has not ended in time.") from exc
        finally:
            # Ends it, and closes its output, which a child of it may hold open for long.
            process._transport.close()  # type: ignore[attr-defined]
            await process.wait()
        if process.returncode:
            raise NotConfigured(
                f"{self._plugin}: {shown(self._fields['command'])} failed with exit code"
                f" {process.returncode}."
            )
        return self._credential(written)

    def _is_interactive(self) -> bool:
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if self._mode == "Always" and not terminal:
            raise NotConfigured(
                f"{self._plugin} has interactiveMode Always, and standard input is no terminal."
            )
        return terminal and self._mode != "Never"

    def _info(self, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._fields.get("provideClusterInfo"):
            spec["cluster"] = self._cluster_info()
        return json.dumps({"kind": "ExecCredential", "apiVersion": self._version, "spec": spec})

    def _cluster_info(self) -> dict[str, Any]:
        cluster = self._cluster
        info: dict[str, Any] = {"server": cluster["server"]}
        for name in ("tls-server-name", "insecure-skip-tls-verify", "disable-compression"):
            if cluster.get(name):
                info[name] = cluster[name]
        authority = cluster.get("certificate-authority-data", b"")
        if "certificate-authority" in cluster:
            try:
                authority = Path(cluster["certificate-authority"]).read_bytes()
            except OSError as exc:
                raise NotConfigured(
                    "The kubeconfig's certificate-authority cannot be read."
                ) from exc
        if authority:
            info["certificate-authority-data"] = base64.b64encode(authority).decode("ascii")
        if self._proxy:
            info["proxy-url"] = self._proxy
        return info | {"config": cluster.get("extensions", {}).get(_CONFIG)}

    def _not_started(self, exc: Exception) -> str:
        command = shown(self._fields["command"])
        if isinstance(exc, FileNotFoundError):
            hint = plaintext.visible(self._fields.get("installHint", ""), keep="\n\t")
            return f"{self._plugin}: the program {command} is not installed.{_below(hint)}"
        why = getattr(exc, "strerror", None) or "its command or env cannot be used"
        return f"{self._plugin}: the program {command} cannot be run: {why}."

    def _credential(self, written: bytes) -> Credential:
        try:
            answer = json.loads(written)
        except (ValueError, RecursionError) as exc:
            raise NotConfigured(f"{self._plugin} did not answer with JSON.") from exc
        if not isinstance(answer, Mapping) or answer.get("kind") != "ExecCredential":
            raise NotConfigured(f"{self._plugin} did not answer with an ExecCredential.")
        if answer.get("apiVersion") != self._version:
            raise NotConfigured(
                f"{self._plugin} is configured for {self._version} and answered with another"
                " version."
            )
        status = answer.get("status")
        status = status if isinstance(status, Mapping) else {}
        token, cert, key = (
            status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData")
        )
        if not all(isinstance(value, str) for value in (token, cert, key)):
            raise NotConfigured(f"{self._plugin} answered with a credential that is no text.")
        if bool(cert) != bool(key):
            raise NotConfigured(f"{self._plugin} answered with only one of certificate and key.")
        if not token and not cert:
            raise NotConfigured(f"{self._plugin} answered with neither a token nor a certificate.")
        return Credential(token, cert.encode(), key.encode(), self._expiry(status))

    def _expiry(self, status: Mapping[str, Any]) -> float | None:
        stamp = status.get("expirationTimestamp")
        if not stamp:
            return None
        try:
            when = datetime.fromisoformat(stamp)
        except (TypeError, ValueError) as exc:
            raise NotConfigured(
                f"{self._plugin} answered with an expirationTimestamp that is no time."
            ) from exc
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _below(hint: str) -> str:
    return f"\n\n{hint}" if hint else ""

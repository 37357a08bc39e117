"""One API server of the real control plane, and how to reach it: kubeconfig, kubectl, blocking
requests, a Transport.

plane.py makes these; fixtures and end-to-end tests use them. Nothing here starts or ends a server.
"""

import base64
import json
import os
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from http import client as http_client
from pathlib import Path
from typing import Any

import yaml

from federator.kube.login import tls
from federator.kube.wire import http
from tests.controlplane import build

ADMIN = "admin"


@dataclass(slots=True)
class Cluster:
    """A running API server. `tokens` has a static bearer token for each user of plane.USERS."""

    name: str
    url: str
    ca_file: Path
    tokens: Mapping[str, str]
    directory: Path
    has_controllers: bool = False
    has_scheduler: bool = False
    has_gangs: bool = False
    """PodGroups are served, and heeded by its scheduler."""

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self.tokens[ADMIN]

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig file for `user`, readable by its owner only."""
        path = self.directory / f"{self.name}-{user.replace(':', '-')}.kubeconfig"
        text = yaml.safe_dump(self.kubeconfig_dict(user))
        path.touch(mode=0o600)
        if (
            path.read_text() != text
        ):  # also where a cluster of this name that ended has left its own
            path.write_text(text)
        return path

    def kubeconfig_dict(self, user: str = ADMIN) -> dict[str, Any]:
        """The same as data, with the certificate authority inline."""
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": self.name,
                    "cluster": {"server": self.url, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
            "current-context": self.name,
        }

    def transport(self, user: str = ADMIN) -> http.HttpTransport:
        """A Transport with that user's token; the caller closes it on the loop that used it."""
        context = tls.client_context(ca_pem=self.ca_file.read_bytes())
        return http.HttpTransport(
            http.Endpoint(self.url, tls=context, credentials=http.StaticToken(self.tokens[user]))
        )

    def ask(self, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
        """One blocking request as administrator: for waiting and for set-up, not for what is being
        tested.
        """
        host, _, port = self.url.removeprefix("https://").partition(":")
        context = ssl.create_default_context(cafile=str(self.ca_file))
        connection = http_client.HTTPSConnection(host, int(port), timeout=30, context=context)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            raw = answer.read()
            is_json = answer.headers.get_content_type() == "application/json"
            return answer.status, json.loads(raw) if is_json else raw.decode()
        finally:
            connection.close()

    def kubectl(
        self, *arguments: str, input: str | None = None, user: str = ADMIN
    ) -> subprocess.CompletedProcess[str]:
        """Runs the built kubectl (else the one on PATH) against this cluster; the caller looks at
        the exit status.
        """
        program = build.kubectl()
        if program is None:
            raise build.Unavailable("There is no kubectl, neither built nor on PATH.")
        environment = {
            "HOME": str(self.directory),
            "PATH": os.environ.get("PATH", ""),  # `kubectl diff` runs diff
            "KUBECONFIG": str(self.kubeconfig(user)),
        }
        return subprocess.run(
            [str(program), *arguments],
            input=input,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

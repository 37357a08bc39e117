"""The files of a pod from its first start to an outage, with a real OpenBao and a real registry."""

import asyncio
import json
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from federator.runtime import running
from federator.runtime.configuration import part as configuration
from federator.runtime.files import wanted
from federator.runtime.parts import Part
from federator.runtime.roles import Pod
from federator.runtime.running import Sidecar
from federator.runtime.secrets import part as secrets
from tests.artifacts import registry
from tests.e2e.test_runtime_config import archive, push
from tests.openbao import pods, server
from tests.openbao.server import OpenBao
from tests.running.ports import free_port

MEMORY = Path("/dev/shm")
CANARY = "canary-e1b7"
WITHIN_S = 60.0
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.xdist_group("openbao"),
    pytest.mark.skipif(not MEMORY.is_dir(), reason="there is no /dev/shm"),
]


def _pod(openbao: OpenBao, folder: Path, **lists: Any) -> Pod:
    openbao.allow("ads", "secret/data/ads/*", "secret/metadata/ads/*")
    patterns = ["spiffe://example.org/ns/ads/sa/*"]
    root = pods.authority(openbao)
    openbao.knows_pods("ads", root, spiffe=patterns, policies=["ads"])
    holder = pods.pod(openbao, folder / "identity", "ads", "web")
    env = {
        "FEDERATOR_TRUST_DOMAIN": "example.org",
        "POD_NAMESPACE": "ads",
        "POD_SERVICE_ACCOUNT": "web",
        "FEDERATOR_IDENTITY_DIR": str(holder.folder),
        "FEDERATOR_SECRETS_URL": openbao.address,
        "FEDERATOR_SECRETS_TRUST_BUNDLE": openbao.ca_file.read_text("ascii"),
        "FEDERATOR_SECRETS_POLL_SECONDS": "1",
        "FEDERATOR_SECRETS_DIR": str(folder / "secrets"),
        "FEDERATOR_CONFIG_DIR": str(folder / "config"),
        **{name: json.dumps(value) for name, value in lists.items()},
    }
    return Pod(env=env, chance=lambda: 0.0)


def _parts(pod: Pod) -> list[Part]:
    return [secrets.make(pod), configuration.make(pod)]


async def _reaches(sidecar: Sidecar, reason: str, words: str = "") -> Mapping[str, Any]:
    """What the sidecar answers once its secrets have this reason."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            _, _, body = await sidecar.answer("/state", inside=True)
            state: Mapping[str, Any] = json.loads(body)
            first = state["parts"][0]
            if first["reason"] == reason and words in first["message"]:
                return state
            await asyncio.sleep(0.05)  # the parts have clocks of their own, and tell nobody


async def test_a_pod_starts_follows_and_outlives_its_backends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory, server.serving() as openbao:
        folder = Path(directory)
        async with registry.serving(tmp_path) as host:
            digest = await push(host, "ads/config", "flags.tar.gz", archive(**{"flags": "on"}))
            tree = {"artifact": f"oci://{host}/ads/config", "digest": digest, "path": "flags"}
            files = [{"name": "ads/db", "path": "db", "mode": 0o400}]
            pod = _pod(openbao, folder, **{wanted.SECRETS: files, wanted.CONFIG: [tree]})

            missing = await running.init(_parts(pod), pod, None, 1.0)
            openbao.put("ads/db", {"password": f"{CANARY}-1"})
            prepared = await running.init(_parts(pod), pod, None, WITHIN_S)

        assert missing.startswith("secrets: there is no secret ads/db in secret/ of https://")
        assert prepared == ""
        assert (folder / "secrets" / "db" / "password").read_text() == f"{CANARY}-1"
        assert (folder / "config" / "flags" / "flags").read_text() == "on"

        sidecar, stop = Sidecar(_parts(pod), pod, tmp_path), asyncio.Event()
        port = free_port()
        work = asyncio.create_task(sidecar.run("127.0.0.1", port, stop))
        states = [await _reaches(sidecar, "Current")]
        openbao.put("ads/db", {"password": f"{CANARY}-2"})
        states.append(await _reaches(sidecar, "Current", "version 2"))
        assert (folder / "secrets" / "db" / "password").read_text() == f"{CANARY}-2"
        openbao.child.stop()
        states.append(await _reaches(sidecar, "StoreAway"))

        assert all(state["ready"] for state in states)
        assert (await sidecar.answer("/readyz", inside=False))[0] == 200
        stop.set()
        await work
        shown = [json.dumps(states), caplog.text, missing]
        shown.append((tmp_path / running.STATE_FILE).read_text())
        assert not [text for text in shown if CANARY in text]

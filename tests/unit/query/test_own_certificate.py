"""The certificate of the query port is made in a child process, or here where there is none."""

import ssl
import subprocess
import sys
import time

import pytest

from federator.kube import tlsserver
from federator.process import certifying


async def test_a_server_shows_it_and_clients_know_it_by_its_authority() -> None:
    cert, key, ca = await certifying.made("query port", "hub", time.time())
    assert tlsserver.server_context(cert, key).get_ca_certs() == []
    (authority,) = ssl.create_default_context(cadata=ca.decode()).get_ca_certs()
    assert authority["subject"] == (((("commonName", "query port authority")),),)


async def test_without_a_child_process_it_is_made_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    cert, key, _ = await certifying.made("query port", "hub", time.time())
    tlsserver.server_context(cert, key)
    assert "no other process makes the certificate of the query port" in caplog.text


def test_a_hub_does_not_load_what_makes_it() -> None:
    program = f"""
import asyncio, sys
from federator import app
from federator.process import certifying
asyncio.run(certifying.made('query port', 'hub', {time.time()}))
print(sorted(name for name in sys.modules if name.split('.')[0] == 'cryptography'))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"

"""PodCertificateRequests, where the answers of the API server are scripted: a real one of Kubernetes
1.37 is in tests/e2e/test_signer_real.py."""

import base64
import json
import random
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives import serialization

from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.metrics import Metrics
from federator.kube.store import Version
from federator.model.steps import RequeueAfter
from federator.runtime.identity.spiffe import SpiffeId
from federator.signer.issuing import CERTIFICATES, Issuer
from federator.signer.podrequests import PodRequests
from tests.unit.embedded.inprocess import EPOCH_S
from tests.unit.kube.scripted import Script, on_virtual_time, reply, status
from tests.unit.signer import cas
from tests.unit.signer.members import OPTIONS, Held

WEB = SpiffeId("test.example", "ads", "web")
KEY = ("ads", "web-0")


def request() -> dict[str, Any]:
    csr = cas.request(str(WEB))[1].public_bytes(serialization.Encoding.DER)
    return {
        "metadata": {"namespace": "ads", "name": "web-0", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "serviceAccountName": "web",
            "podName": "web-0",
            "podUID": "u-1",
            "maxExpirationSeconds": 3600,
            "stubPKCS10Request": base64.b64encode(csr).decode(),
        },
    }


def follower(script: Script, **changed: Any) -> tuple[PodRequests, Metrics]:
    async def project(_: str) -> str:
        return ""

    metrics, clock = Metrics(), Clock(EPOCH_S)
    issuer = Issuer(
        Held(EPOCH_S),
        replace(OPTIONS, **changed),
        now_s=lambda: EPOCH_S,
        monotonic=clock.monotonic,
        project_of=project,
        metrics=metrics,
    )
    made = PodRequests(Client(script), issuer, signer="test/x", clock=clock, rng=random.Random(1))
    made.store.put(KEY, request(), Version(1, "u"))
    return made, metrics


def signed(metrics: Metrics) -> float:
    child = metrics.child(CERTIFICATES, "podcertificaterequest", "Issued")
    return float(child._value.get())


@on_virtual_time
async def test_a_certificate_that_the_api_server_does_not_accept_ends_as_failed() -> None:
    script = Script(status(422, "Invalid", "notAfter: must be earlier"), reply(request()))
    made, metrics = follower(script)

    assert await made.turn(KEY) is None
    first, second = (json.loads(each.body)["status"] for each in script.requests)
    assert first["conditions"][0]["type"] == "Issued"
    [condition] = second["conditions"]
    assert (condition["type"], condition["reason"]) == ("Failed", "NotAccepted")
    assert "notAfter: must be earlier" in condition["message"]
    assert "certificateChain" not in second
    assert signed(metrics) == 1


@on_virtual_time
async def test_nothing_is_signed_that_would_be_too_short_for_api_servers() -> None:
    made, metrics = follower(Script(), lifetime_s=600)
    waits = await made.turn(KEY)

    assert isinstance(waits, RequeueAfter)
    assert "raise signer.lifetime_s" in waits.why
    assert signed(metrics) == 0

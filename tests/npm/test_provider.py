"""The provider of the tests is a real issuer: its tokens count by its own discovery document and keys."""

import aiohttp
import pytest

from federator.kube.clock import RealClock
from federator.kube.login import tls
from federator.process.oidc import issuer
from federator.process.oidc.issuer import Issuer
from federator.process.oidc.tokens import Rejected, Trust
from tests.npm import provider

pytestmark = [pytest.mark.e2e]


async def test_a_machine_gets_a_token_for_one_audience() -> None:
    given = {"ci": {"groups": ["ads-deploy"]}}
    async with provider.running(provider.machine("ci", "of-tests"), machines=given) as made:
        form = {"grant_type": "client_credentials", "scope": "submit"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{made.issuer}/token",
                data=form,
                headers={"Authorization": aiohttp.encode_basic_auth("ci", "of-tests")},
                ssl=tls.client_context(ca_pem=made.ca_pem),
            ) as answer,
        ):
            token = (await answer.json())["access_token"]
        connect = issuer.connecting(ca_pem=made.ca_pem, allow_loopback=True)
        for audience, user in (("urn:federator", f"{made.issuer}#ci"), ("urn:other", "")):
            trust = Trust(made.issuer, frozenset({audience}))
            trusted = Issuer(trust, connect, clock=RealClock())
            try:
                if user:
                    found = await trusted.verified(token)
                    assert (found.user, found.groups) == (user, ("ads-deploy",))
                else:
                    with pytest.raises(Rejected, match="audience"):
                        await trusted.verified(token)
            finally:
                await trusted.close()

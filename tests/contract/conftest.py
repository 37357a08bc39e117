"""Fixtures of the contract suite: the same tests on a real API server and on the embedded one."""

import contextlib
import itertools
import os
import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    "tests.contract.speaking"
)  # before it is imported: its assertions are what tests show

from federator.embedded import http as embedded_http  # noqa: E402
from federator.embedded.server import EmbeddedCluster  # noqa: E402
from federator.embedded.storage.messages import Caller  # noqa: E402
from federator.kube.clock import RealClock  # noqa: E402
from federator.kube.login import tls  # noqa: E402
from federator.kube.wire import http  # noqa: E402
from federator.kube.wire.transport import Transport  # noqa: E402
from tests.contract.crds import install_widgets  # noqa: E402
from tests.contract.speaking import Speaker  # noqa: E402
from tests.controlplane import build  # noqa: E402
from tests.controlplane.plane import ControlPlane  # noqa: E402

BACKENDS = [
    "embedded",
    pytest.param("embedded-http", marks=pytest.mark.e2e),
    pytest.param(
        "real",
        marks=[
            pytest.mark.real,
            pytest.mark.e2e,
            pytest.mark.xdist_group("contract of real servers"),
        ],
    ),
]

OVER_HTTP = frozenset(
    f"test_contract_{subject}"
    for subject in (
        "discovery",  # media types, compressed documents
        "dryrun",  # query parameters and their counterparts in bodies
        "patching",  # content types
        "permissions",  # tokens
        "rbac",  # tokens, users that others act as
        "reading",  # chunks, continue tokens, Accept headers
        "tables",  # Accept headers
        "watching",  # streams, their ends and time-outs
        "writing",  # bodies, errors on the wire, Warning headers
    )
)
"""Files whose subject is what a transport carries. `make test` asks both backends of the embedded
API in them; in the others the second one answers from the same code, and belongs to
`make test-long`.
"""

NOBODY = Caller("nobody")

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Moves what says the same over HTTP to `make test-long`."""
    folder = Path(__file__).parent
    for item in items:
        spec = getattr(item, "callspec", None)
        if (
            spec is not None
            and spec.params.get("backend") == "embedded-http"
            and item.path.parent == folder
            and item.path.stem not in OVER_HTTP
        ):
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Which server the test speaks to."""
    return str(request.param)


@pytest.fixture
def newest(backend: str) -> bool:
    """Whether the server is of the newest Kubernetes: the embedded one always, the real one unless
    FEDERATOR_TEST_KUBERNETES asks for the one before, which says a few things in other words."""
    return backend != "real" or build.chosen() == build.KUBERNETES


@dataclass(frozen=True, slots=True)
class Server:
    """A way to a server, as administrator, and what the suite can do to it from outside."""

    transport: Transport
    nobody: Transport
    """The same as a user named `nobody`, who may do nothing."""
    stranger: Transport | None
    """The same with a token that the server does not know; None in process, where there are no
    tokens.
    """
    forget: Callable[[], object]
    """Makes it forget all versions before now; blocks."""
    connect: Callable[[str], Transport | None]
    """A transport with a bearer token; None when the server does not know the token (in process,
    where it is asked).
    """

    @contextlib.asynccontextmanager
    async def bearer(self, token: str) -> AsyncIterator[Transport]:
        """A transport with this token, closed at the end of the block."""
        transport = self.connect(token)
        assert transport is not None, "the server does not know the token"
        yield transport
        await transport.close()


def bare_cluster() -> EmbeddedCluster:
    """An embedded API without controllers, in real time."""
    return EmbeddedCluster("contract", clock=RealClock(), rng=random.Random(1), controllers=False)


@pytest.fixture
def embedded() -> EmbeddedCluster:
    """What an embedded backend serves: new for each test, unless a file shares one."""
    return bare_cluster()


@pytest.fixture
async def server(
    backend: str, embedded: EmbeddedCluster, request: pytest.FixtureRequest
) -> AsyncIterator[Server]:
    """The server of this test's backend; the real one is shared by all."""
    if backend == "real":
        plane: ControlPlane = request.getfixturevalue("control_plane")
        real = plane.cluster("contract")
        tokens = (real.token, real.tokens["nobody"], "wrong")
        admin, nobody, stranger = (
            over_http(real.url, real.ca_file.read_bytes(), token) for token in tokens
        )
        ca_pem = real.ca_file.read_bytes()
        yield Server(
            admin,
            nobody,
            stranger,
            lambda: plane.forget(real),
            lambda token: over_http(real.url, ca_pem, token),
        )
        await close(admin, nobody, stranger)
        return
    cluster = embedded
    if backend == "embedded":

        def connect(token: str) -> Transport | None:
            caller = cluster.context.tokens.caller(token)
            return None if caller is None else cluster.transport(caller)

        yield Server(
            cluster.transport(), cluster.transport(NOBODY), None, cluster.store.compact, connect
        )
        return
    listening = await embedded_http.serve(cluster)
    cluster.add_token("nobody", NOBODY)
    tokens = (cluster.token, "nobody", "wrong")
    admin, nobody, stranger = (
        over_http(listening.url, listening.ca_pem, token) for token in tokens
    )
    yield Server(
        admin,
        nobody,
        stranger,
        cluster.store.compact,
        lambda token: over_http(listening.url, listening.ca_pem, token),
    )
    await close(admin, nobody, stranger)
    await listening.close()


def over_http(url: str, ca_pem: bytes, token: str) -> Transport:
    """A transport with this bearer token."""
    endpoint = http.Endpoint(
        url, tls=tls.client_context(ca_pem=ca_pem), credentials=http.StaticToken(token)
    )
    return http.HttpTransport(endpoint)


async def close(*transports: Transport) -> None:
    for transport in transports:
        await transport.close()


@pytest.fixture
async def api(server: Server) -> Speaker:
    """A speaker with an empty namespace of its own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "w")
    speaker = Speaker(server.transport, f"c{worker}-{next(_numbers)}")
    (await speaker.post("/api/v1/namespaces", {"metadata": {"name": speaker.namespace}})).object(
        201
    )
    return speaker


@pytest.fixture
def forget(server: Server) -> Callable[[], object]:
    """Makes the server forget all versions before now, so that asking for them is too late."""
    return server.forget


@pytest.fixture
async def widgets(api: Speaker) -> Speaker:
    """A speaker on a server that serves the widgets of crds.py."""
    await install_widgets(api)
    return api

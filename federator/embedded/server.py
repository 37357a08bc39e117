"""One embedded Kubernetes API: its store, its REST layer, its stand-in controllers, and ways to reach it.

Made by the sandbox, the simulator and tests, many per process. Must be made inside a running event loop (real or
virtual), since its clock is that loop's.
"""

import random
from collections.abc import Sequence

from federator.embedded.api import Api
from federator.embedded.context import Context
from federator.embedded.controllers import Controllers, NodePool
from federator.embedded.crdcleanup import CrdCleanup
from federator.embedded.inprocess import InProcessTransport
from federator.embedded.messages import ADMIN, Caller
from federator.embedded.registry import Registry
from federator.embedded.resources import ResourceInfo
from federator.embedded.reviews import Authorizer
from federator.embedded.store import Store
from federator.kube.clock import Clock

INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
TOKEN_BYTES = 16


class EmbeddedCluster:
    """An API server in this process. Everything it draws by chance comes from `rng`.

    `nodes` are the machines its kubelet stand-ins run (none on a host); `workloads=False` leaves only the namespace and
    garbage-collection controllers, as on a dedicated host; `controllers=False` leaves the bare API.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        rng: random.Random,
        authorizer: Authorizer | None = None,
        controllers: bool = True,
        workloads: bool = True,
        nodes: Sequence[NodePool] = (),
        history: int = 2000,
    ) -> None:
        self.name = name
        self.clock = clock
        self.store = Store(clock, rng, history=history)
        self.context = Context(name, self.store, clock, rng)
        self.token = rng.randbytes(TOKEN_BYTES).hex()
        """The bearer token of the administrator, over HTTP."""
        self.api = Api(self.context, authorizer, {self.token: ADMIN})
        self._cleanup = CrdCleanup(self.context)
        for namespace in INITIAL_NAMESPACES:
            self._make_namespace(namespace)
        self.controllers: Controllers | None = None
        if controllers:
            self.controllers = Controllers(
                self.store,
                clock,
                random.Random(rng.getrandbits(64)),
                nodes=tuple(nodes),
                workloads=workloads,
                resources=self.registry.stored,
            )

    @property
    def registry(self) -> Registry:
        """What this server serves."""
        return self.context.registry

    @property
    def uid(self) -> str:
        """The cluster's identity: the uid of its kube-system namespace."""
        namespace = self.store.get(self._namespaces, "", "kube-system")
        return "" if namespace is None else str(namespace.obj["metadata"]["uid"])

    def transport(self, caller: Caller = ADMIN) -> InProcessTransport:
        """A new in-process connection as `caller`."""
        return InProcessTransport(self.api, caller, self.name)

    def renew_token(self, token: str) -> None:
        """Replaces the administrator's bearer token; a served cluster gets one from the machine's own entropy."""
        del self.api.tokens[self.token]
        self.token = token
        self.api.tokens[token] = ADMIN

    def add_token(self, token: str, caller: Caller) -> None:
        """Lets `caller` in over HTTP with this bearer token."""
        self.api.tokens[token] = caller

    @property
    def _namespaces(self) -> ResourceInfo:
        return self.registry.get("", "namespaces")

    def _make_namespace(self, name: str) -> None:
        self.store.create(
            self._namespaces,
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
        )

"""One embedded Kubernetes API: its store, its REST layer, its stand-in controllers, and ways to
reach it.

Made by the sandbox, the simulator and tests, many per process. Must be made inside a running event
loop (real or virtual), since its clock is that loop's.
"""

import random
from collections.abc import Sequence

from federator.embedded.auth import bootstrap, tokens
from federator.embedded.auth.aggregation import Aggregation
from federator.embedded.auth.tokens import Tokens
from federator.embedded.catalogue.registry import Registry
from federator.embedded.controllers import Controllers, NodePool
from federator.embedded.controllers.cleanup.crd_cleanup import CrdCleanup
from federator.embedded.controllers.kubelet.behaviour import Defaults
from federator.embedded.controllers.kubelet.support import Support
from federator.embedded.rest.api import Api
from federator.embedded.rest.context import Context
from federator.embedded.rest.inprocess import InProcessTransport
from federator.embedded.storage.messages import ADMIN, Caller
from federator.embedded.storage.store import Store
from federator.kube.clock import Clock

TOKEN_BYTES = 16


class EmbeddedCluster:
    """An API server in this process. Everything it draws by chance comes from `rng`.

    `nodes` are the machines its kubelet stand-ins run (none on a host); `workloads=False` leaves
    only the namespace and garbage-collection controllers, as on a dedicated host;
    `controllers=False` leaves the bare API. `defaults` is how pods behave that say nothing about
    it, `events` how many events its controllers keep, `support` what runs the containers beside the
    application of pods.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        rng: random.Random,
        controllers: bool = True,
        workloads: bool = True,
        nodes: Sequence[NodePool] = (),
        defaults: Defaults = Defaults(),  # noqa: B008  # frozen
        events: int = 500,
        history: int = 2000,
        support: Support | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self.store = Store(clock, rng, history=history)
        self.token = rng.randbytes(TOKEN_BYTES).hex()
        """The bearer token of the administrator, over HTTP."""
        self.tokens = Tokens(self.store, tokens.key_of(self.token))
        self.tokens.admins[self.token] = ADMIN
        self.context = Context(name, self.store, clock, rng, self.tokens)
        self.api = Api(self.context)
        self._cleanup = CrdCleanup(self.context.store, self.context.registry)
        bootstrap.furnish(self.store, self.registry)
        self.controllers: Controllers | None = None
        if controllers:
            Aggregation(self.store, self.registry)
            self.controllers = Controllers(
                self.store,
                clock,
                random.Random(rng.getrandbits(64)),
                nodes=tuple(nodes),
                workloads=workloads,
                resources=self.registry.stored,
                defaults=defaults,
                events=events,
                tokens=self.tokens,
                support=support,
            )

    @property
    def registry(self) -> Registry:
        """What this server serves."""
        return self.context.registry

    @property
    def uid(self) -> str:
        """The cluster's identity: the uid of its kube-system namespace."""
        namespace = self.store.get(self.registry.get("", "namespaces"), "", "kube-system")
        return "" if namespace is None else str(namespace.obj["metadata"]["uid"])

    def transport(self, caller: Caller = ADMIN) -> InProcessTransport:
        """A new in-process connection as `caller`."""
        return InProcessTransport(self.api, caller, self.name)

    def renew_token(self, token: str) -> None:
        """Replaces the administrator's bearer token; a served cluster gets one from the machine's
        own entropy. The key that signs tokens of service accounts follows it: tokens made before
        count no more.
        """
        del self.tokens.admins[self.token]
        self.token = token
        self.tokens.admins[token] = ADMIN
        self.tokens.renew_key(tokens.key_of(token))

    def add_token(self, token: str, caller: Caller) -> None:
        """Lets `caller` in over HTTP with this bearer token."""
        self.tokens.admins[token] = caller

    def trust(self, root_ca: str) -> None:
        """Sets what workloads trust when they connect to this server: PEM certificates for
        kube-root-ca.crt."""
        if self.controllers is not None:
            self.controllers.trust(root_ca)

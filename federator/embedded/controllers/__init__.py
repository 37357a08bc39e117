"""Stand-ins for what runs beside a real API server: native controllers, scheduler, kubelets.

They work straight on the store of one embedded cluster, driven by its changes and by one timer;
idle they cost nothing. Started together with an `EmbeddedCluster`. Annotations say how pods behave:
see `behaviour`.
"""

from federator.embedded.controllers.kubelet.behaviour import Defaults
from federator.embedded.controllers.nodes import NodePool
from federator.embedded.controllers.runtime import Controllers

__all__ = ["Controllers", "Defaults", "NodePool"]

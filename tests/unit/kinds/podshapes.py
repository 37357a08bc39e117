"""The shape of a pod, for the tests that look at nothing else of it."""

from typing import Any

from federator.kinds.pods import effective
from federator.model.ask import PodShape


def pod_shape(*given: Any, **more: Any) -> PodShape:
    """As `effective.pod_of`, without what the containers state."""
    return effective.pod_of(*given, **more)[0]

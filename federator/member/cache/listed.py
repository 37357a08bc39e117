"""Whether what a process watches has been listed, or is known not to come."""

from typing import Any

from federator.kube import errors
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector


def listed_or_withheld(store: Store[Any], reflector: Reflector[Any]) -> bool:
    """Listed, or known not to be served, or not shown to this process: its rights may be those of a
    release that did not know the kind."""
    return listed_or_absent(store, reflector) or isinstance(reflector.trouble, errors.Denied)


def listed_or_absent(store: Store[Any], reflector: Reflector[Any]) -> bool:
    """Listed, or known not to be served at all."""
    return store.synced or isinstance(reflector.trouble, errors.NotFound)

"""Pods whose backends go away, are slow and lie: they run on, or wait with the reason, and nothing
leaks. Planted bugs break each rule."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import pytest

from federator.runtime.configuration import downloading, unpacking
from federator.runtime.identity import certificates
from federator.runtime.identity import part as identity
from federator.runtime.identity.renewal import Lifetime
from federator.runtime.parts import PartState
from federator.runtime.secrets import part as secrets
from federator.runtime.secrets.part import Secrets
from federator.runtime.traffic import phases
from federator.runtime.traffic.phases import Phase, Sign, Standing
from tests.simulation import backends, runtimes
from tests.simulation.mutations import instead
from tests.simulation.running import Plant

KINDS = list(backends.FAULTS)


def first(backend: str, kind: str) -> int:
    """The first seed with this fault."""
    return KINDS.index((backend, kind))


def _late(_: Any) -> Any:
    return lambda self, chance: self.begin_s + self.length_s * 0.97


def _by_connection(_: Any) -> Any:
    return property(lambda self: self.phase is Phase.SERVING and not self.failures)


def _tells(original: Any) -> Any:
    def state(self: Any) -> PartState:
        told: PartState = original(self)
        return PartState(told.part, told.ready, told.reason, "something is wrong")

    return state


def _forgets(original: Any) -> Any:
    async def follow(self: Any) -> None:
        await original(self)
        if self._trouble is not None:
            self._versions.clear()

    return follow


def _never_follows(_: Any) -> Any:
    async def follow(self: Any) -> None:
        await asyncio.sleep(0.0)

    return follow


def _logs_values(original: Callable[..., None]) -> Any:
    def place(path: Any, file: Any, secret: Any) -> None:
        logging.getLogger("federator.runtime.secrets").info("writes %s", secret.values)
        original(path, file, secret)

    return place


def _believes(_: Any) -> Any:
    return lambda target: (target.name.replace("-", ":", 1), target.stat().st_size)


def _any_name(original: Any) -> Any:
    return lambda text: text


def _gives_up() -> contextlib.AbstractContextManager[Any]:
    def failed(self: Standing, why: str, *_given: float) -> Standing:
        return dataclasses.replace(self, failures=self.failures + 1, why=why, due_s=1e9)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(Standing, "failed", failed))
    stack.enter_context(mock.patch.object(Standing, "hurried", lambda self, *_given: self))
    return stack


def _unwritten() -> contextlib.AbstractContextManager[Any]:
    moves = {key: move for key, move in phases.MOVES.items() if key != (Phase.SERVING, Sign.LOST)}
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.multiple(phases, MOVES=moves, CHECK_S=1e9))
    stack.enter_context(mock.patch.object(Standing, "hurried", lambda self, *_given: self))
    return stack


PLANTS: Mapping[str, tuple[str, Plant, int]] = {
    "certificates are renewed in the last minutes": (
        runtimes.RUNS,
        instead(Lifetime, "due_s", _late),
        187,
    ),
    "certificates are checked by nobody": (
        runtimes.RUNS,
        instead(certificates, "_check_path", lambda _: lambda *_given: None),
        first("authority", "foreign root"),
    ),
    "pods are ready while the registry answers": (
        runtimes.RUNS,
        instead(Standing, "ready", _by_connection),
        first("registry", "away"),
    ),
    "a lost session is not noticed": (
        runtimes.RUNS,
        Plant(patched=_unwritten),
        first("registry", "sessions"),
    ),
    "secrets are forgotten with their store": (
        runtimes.RUNS,
        instead(Secrets, "follow", _forgets),
        first("store", "away"),
    ),
    "secrets are read once": (
        runtimes.FOLLOWS,
        instead(Secrets, "follow", _never_follows),
        first("store", "sealed"),
    ),
    "reasons say nothing": (
        runtimes.WAITS,
        instead(identity.Renewed, "state", _tells),
        first("signer", "away"),
    ),
    "the registry is asked once": (
        runtimes.RECOVERS,
        Plant(patched=_gives_up),
        len(KINDS) + first("registry", "slow"),
    ),
    "values are logged": (runtimes.LEAKS, instead(secrets, "_place", _logs_values), 0),
    "archives may climb": (runtimes.CLIMBS, instead(unpacking, "_name", _any_name), 12),
    "digests are not compared": (
        runtimes.RUNS,
        instead(downloading, "_digest", _believes),
        len(KINDS) + first("artifacts", "wrong bytes"),
    ),
}


@pytest.mark.parametrize("seed", range(2))
def test_pods_run_on_whatever_befalls_their_backends(seed: int) -> None:
    assert runtimes.CAMPAIGN.played(seed)["renewed"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, len(KINDS)))
def test_pods_run_on_whatever_befalls_their_backends_in_further_worlds(seed: int) -> None:
    assert runtimes.CAMPAIGN.played(seed)["renewed"]


@pytest.mark.long
@pytest.mark.parametrize("what", sorted(PLANTS))
def test_a_bug_of_the_runtime_is_found(what: str) -> None:
    rule, plant, seed = PLANTS[what]
    assert runtimes.CAMPAIGN.catches(rule, plant, range(seed, seed + 1))


def test_a_secret_in_a_log_is_found() -> None:
    """The quickest of the planted bugs, in every run."""
    rule, plant, seed = PLANTS["values are logged"]
    assert runtimes.CAMPAIGN.catches(rule, plant, [seed])

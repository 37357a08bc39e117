"""The traffic part of a pod's runtime: asks the readiness probes of the application, and keeps the
pod's entry in the registry as `phases` says.
"""

import asyncio
import contextlib
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from federator.runtime import asking
from federator.runtime.parts import DRAIN_MAX_S, PartState, Waiting
from federator.runtime.probes import Probe, Readiness
from federator.runtime.traffic import settings as reading
from federator.runtime.traffic.phases import EFFECTS, Effect, Phase, Sign, Standing
from federator.runtime.traffic.registry import RegistrationRefused, Registry, Unreachable
from federator.runtime.traffic.settings import Settings, Unusable

log = logging.getLogger("federator.traffic")

NAME: Final = "traffic"
EAGER_S: Final = 0.5
"""A container that is not ready is asked so often, or at its own period if that is shorter: a pod
is in the registry within a second after it can serve."""
REMOVE_S: Final = 5.0
"""A drain of less than this waits so long for the removal of the entry."""
HOOK_S: Final = 1.0
"""The application's httpGet hook is given at least this time."""
OPEN: Final = "every client of the registry may change the entry: this pod has no identity there"
LEAST_S: Final = 0.001
"""What two clocks may round differently."""
KEPT: Final = "traffic.json"
STATE_DIR: Final = "FEDERATOR_STATE_DIR"
"""Variable with a folder that outlives the sidecar and not the pod."""

Ask = Callable[[Probe, str], Awaitable[str]]


class TrafficPart:
    """See `parts.Part`. `state_dir` outlives this process and not the pod."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        state_dir: Path | None = None,
        *,
        ask: Ask = asking.ask,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.settings = settings
        self._registry = registry
        self._kept = state_dir / KEPT if state_dir is not None else None
        self._ask = ask
        self._clock = clock
        self._chance = chance
        self._asked = {name: Readiness(probe) for name, probe in settings.probes.items()}
        self._standing = Standing()
        self._drains_s: float | None = None
        self._draining: asyncio.Task[None] | None = None
        self._resumed = False
        self._begun = False
        self._moved = asyncio.Event()
        self._gone = asyncio.Event()

    @property
    def name(self) -> str:
        return NAME

    async def prepare(self) -> None:
        """Nothing has to be there before the application starts: it is registered when it is
        ready."""

    def state(self) -> PartState:
        standing, member = self._standing, self.settings.member
        reason, message = standing.phase.value, ""
        # No figure that grows: the runner logs each change of a state.
        trouble = standing.why or ("" if self._registry.up else "the registry does not answer")
        match standing.phase:
            case Phase.WAITING:
                waits = "; ".join(f"{n}: {a.why}" for n, a in self._asked.items() if a.why)
                message = f"The application is not ready ({waits})."
            case Phase.JOINING if not standing.served:
                message = f"{member.endpoint} is ready and not yet in {member.folder}."
            case Phase.JOINING | Phase.SERVING if trouble:
                reason = "RegistryUnreachable"
                message = f"{member.endpoint} goes on serving under {member.folder}."
            case Phase.JOINING | Phase.SERVING if self.settings.anonymous:
                reason = "NoIdentity"
                message = f"{member.endpoint} is in {member.folder}; {OPEN}."
            case Phase.JOINING | Phase.SERVING:
                message = f"{member.endpoint} is in {member.folder}."
            case Phase.LEAVING:
                message = f"The application is not ready any more; {member.endpoint} is removed."
            case Phase.DRAINING:
                message = f"The pod ends; {member.endpoint} is removed from {member.folder}."
            case Phase.GONE:
                message = f"The pod ends; {member.endpoint} is not in {member.folder}."
        if trouble and standing.phase not in (Phase.WAITING, Phase.GONE):
            message = f"{message} {trouble[:1].upper()}{trouble[1:]}."
        return PartState(NAME, standing.ready, reason, message)

    # -- running --------------------------------------------------------------

    async def run(self) -> None:
        if self._begun:
            # The runner runs the part again after a bug: its earlier session was closed. A pod that
            # drains goes on with that, and joins no more.
            self._sign(Sign.LOST)
        else:
            self._begun = True
            if self._drains_s is None:
                self._resume()
            if self.settings.anonymous:
                log.warning("%s", OPEN)
        self._registry.watch(self._session_changed)
        try:
            async with asyncio.TaskGroup() as group:
                for name, asked in self._asked.items():
                    group.create_task(self._probe(asked), name=f"readiness of {name}")
                group.create_task(self._keep_up(), name="registry")
        finally:
            await self._registry.close()

    async def drain(self) -> None:
        """Removes the entry, waits until the drain time is over, so that clients notice, and calls
        the application's own preStop hooks. Callers may be many: it happens once."""
        if self._drains_s is None:
            self._drains_s = self._clock()
            self._draining = asyncio.get_running_loop().create_task(self._drain(), name="drain")
        assert self._draining is not None
        await asyncio.shield(self._draining)

    async def _drain(self) -> None:
        began_s = self._clock()
        listed = self._standing.phase is not Phase.WAITING
        self._sign(Sign.DRAIN)
        if listed:
            try:
                async with asyncio.timeout(max(self.settings.drain_s, REMOVE_S)):
                    await self._gone.wait()
            except TimeoutError:
                log.warning("the drain ends with the entry in place: %s", self.state().message)
            await asyncio.sleep(max(began_s + self.settings.drain_s - self._clock(), 0.0))
        hooks = self.settings.hooks
        for name, why in zip(
            hooks,
            await asyncio.gather(*(self._hook(hook, began_s) for hook in hooks.values())),
            strict=True,
        ):
            if why:
                log.warning("the preStop hook of container %s: %s", name, why)

    async def _hook(self, hook: Mapping[str, Any], began_s: float) -> str:
        if "httpGet" in hook:
            left_s = max(began_s + DRAIN_MAX_S - self._clock(), HOOK_S)
            probe = Probe({"httpGet": hook["httpGet"]}, timeout_s=left_s)
            return await self._ask(probe, self.settings.member.ip)
        await asyncio.sleep(reading.sleep_s(hook))
        return ""

    async def _probe(self, asked: Readiness) -> None:
        probe = asked.probe
        if not self._resumed:
            await asyncio.sleep(probe.delay_s)
        while self._drains_s is None:
            asked.answered(await self._ask(probe, self.settings.member.ip))
            ready = all(each.ready for each in self._asked.values())
            self._sign(Sign.READY if ready else Sign.UNREADY)
            period_s = probe.period_s
            await asyncio.sleep(period_s if asked.ready else min(period_s, EAGER_S))

    async def _keep_up(self) -> None:
        """Asks the registry for one effect after the other."""
        while True:
            now_s = self._clock()
            effect = self._standing.effect(now_s) if self._registry.up else None
            if effect is not None:
                await self._carry_out(effect)
                continue
            self._moved.clear()
            asked = self._registry.up and self._standing.phase in EFFECTS
            wait_s = max(self._standing.due_s - now_s, LEAST_S) if asked else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._moved.wait()

    async def _carry_out(self, effect: Effect) -> None:
        member = self.settings.member
        try:
            if effect is Effect.WRITE:
                session = await self._registry.join(member)
                if session != self._registry.session:
                    raise Unreachable("the session ended while the entry was written")
                self._sign(Sign.WRITTEN)
            else:
                await self._registry.leave(member)
                self._sign(Sign.REMOVED)
        except (Unreachable, RegistrationRefused) as bad:
            if str(bad) != self._standing.why:
                log.warning("cannot %s the entry of %s: %s", effect.value, member.endpoint, bad)
            self._standing = self._standing.failed(str(bad), self._clock(), self._chance())

    # -- signs ----------------------------------------------------------------

    def _session_changed(self, lost: bool) -> None:
        if lost:
            log.warning("the session at the registry has ended, and its entry with it")
            self._sign(Sign.LOST)
        if self._registry.up:
            self._standing = self._standing.hurried(self._clock(), self._chance())
        self._moved.set()

    def _sign(self, sign: Sign) -> None:
        before = self._standing
        self._standing = before.after(sign, self._clock())
        if self._standing.phase is not before.phase:
            log.info("%s -> %s: %s", before.phase.value, self._standing.phase.value, sign.value)
            if self._standing.served != before.served:
                self._keep()
            self._moved.set()
        if self._standing.phase is Phase.GONE:
            self._gone.set()

    # -- across restarts of the sidecar ---------------------------------------

    def _keep(self) -> None:
        if self._kept is not None:
            fresh = self._kept.with_suffix(".new")
            with contextlib.suppress(OSError):
                fresh.write_text(json.dumps({"served": self._standing.served}), "ascii")
                fresh.replace(self._kept)

    def _resume(self) -> None:
        """A pod that was in the registry before this sidecar was started again may be there still:
        its entry is taken over, or removed as soon as its probe fails."""
        if self._kept is None:
            return
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if json.loads(self._kept.read_text("ascii")).get("served") is True:
                self._standing = Standing(Phase.JOINING, served=True, due_s=self._clock())
                self._resumed = True
                for asked in self._asked.values():
                    asked.ready, asked.why = True, ""
                log.info("this pod was in the registry before the sidecar was started again")


class Standstill:
    """The part of a pod that is not to be registered, or that cannot be."""

    def __init__(self, state: PartState) -> None:
        self._state = state

    @property
    def name(self) -> str:
        return NAME

    async def prepare(self) -> None:
        if not self._state.ready:
            raise Waiting(self._state)

    async def run(self) -> None:
        """Nothing has to be kept up."""

    async def drain(self) -> None:
        """There is no entry."""

    def state(self) -> PartState:
        return self._state


class Pod(Protocol):
    """What the runner gives a part."""

    @property
    def env(self) -> Mapping[str, str]: ...

    @property
    def monotonic(self) -> Callable[[], float]: ...

    @property
    def chance(self) -> Callable[[], float]: ...


def make(pod: Pod) -> TrafficPart | Standstill:
    """The traffic part of a pod, from the variables of its container."""
    return made(pod, _registry)


def made(
    pod: Pod, registry: Callable[[Settings], Registry], ask: Ask = asking.ask
) -> TrafficPart | Standstill:
    """The same with another registry, and another way to ask the application."""
    if not reading.registers(pod.env):
        message = "FEDERATOR_TRAFFIC_REGISTER is false: this pod is in no registry."
        return Standstill(PartState(NAME, ready=True, reason="NotRegistered", message=message))
    try:
        settings = reading.read(pod.env)
    except Unusable as bad:
        return Standstill(PartState(NAME, ready=False, reason="Unusable", message=f"{bad}."))
    state = pod.env.get(STATE_DIR, "")
    return TrafficPart(
        settings,
        registry(settings),
        Path(state) if state else None,
        ask=ask,
        clock=pod.monotonic,
        chance=pod.chance,
    )


def _registry(settings: Settings) -> Registry:
    if settings.hosts == reading.EMBEDDED:
        from federator.runtime.traffic.embedded import Directory, EmbeddedRegistry

        return EmbeddedRegistry(Directory())
    from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry

    return ZooKeeperRegistry(
        Server(settings.hosts, settings.session_s, settings.secret, settings.certificates)
    )

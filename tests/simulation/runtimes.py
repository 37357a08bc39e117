"""`python -m tests.simulation.runtimes --seeds 0-99`: pods with the runtime's parts that have a
backend, for five hours on virtual time, while backends go away for up to an hour, are slow, lie, and
clocks are off.

Each pod is init run, sidecar and application, kept by a stand-in of a kubelet. Parts, signer and
registry are those of the product; `backends` has the rest. Rules:

* runs: a pod that runs keeps a certificate that its peers take, its files, its readiness and its
  entry, whatever befalls the backends;
* waits: a pod that cannot start says which part waits, in the words of a fault that is there;
* recovers: soon after the last fault it runs;
* follows: soon after the last fault it has the newest version of its secret;
* leaks: no secret, key or token is in a log, a state, an answer or a message;
* climbs: an archive that leads outside leaves nothing anywhere, and its pod says so.
"""

import asyncio
import contextlib
import json
import math
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from federator.runtime import running
from federator.runtime.configuration.part import Configuration
from federator.runtime.files.wanted import ConfigTree, SecretFile
from federator.runtime.identity.authority import Signer
from federator.runtime.identity.certificates import CertificateRefused
from federator.runtime.identity.keymaker import Renewal, refusal
from federator.runtime.identity.part import Renewed
from federator.runtime.identity.spiffe import SpiffeId
from federator.runtime.parts import Part
from federator.runtime.probes import Probe
from federator.runtime.roles import Pod
from federator.runtime.running import Sidecar
from federator.runtime.secrets.openbao import OpenBaoStore, Place
from federator.runtime.secrets.part import Secrets
from federator.runtime.traffic.embedded import EmbeddedRegistry
from federator.runtime.traffic.members import Member as Entry
from federator.runtime.traffic.part import TrafficPart
from federator.runtime.traffic.settings import EMBEDDED, Settings
from federator.signer.options import SignerOptions
from tests.simulation import backends
from tests.simulation.backends import Backends, SignerLine, digest, named, store_of
from tests.simulation.campaigns import Broken, Campaign, play_until
from tests.traffic.pods import Network, Simulated
from tests.unit.embedded import inprocess
from tests.unit.signer.members import Member

RUNS, WAITS, RECOVERS, FOLLOWS, LEAKS, CLIMBS = (
    "runs", "waits", "recovers", "follows", "leaks", "climbs"
)  # fmt: skip
LENGTH_S: Final = 5 * 3600.0
HOUR_S: Final = 3600.0
QUIET_S: Final = 1800.0
"""Before the end no backend fails any more."""
INIT_S: Final = 120.0
RESTART_S: Final = (10.0, 300.0)
"""A kubelet starts a container again after so long, doubled each time, up to the second figure."""
SOON_S: Final = RESTART_S[1] + INIT_S + 60.0
"""Within this time after the end of a fault what waited runs: a kubelet may just have begun its
longest pause."""
ECHO_S: Final = backends.TRICKLE_S + RESTART_S[1] + INIT_S
"""So long after a fault a pod may still tell of it."""
POLL_S: Final = 300.0
SESSION_S: Final = 60.0
PERIOD_S: Final = 30.0
"""Of the readiness probe of the application."""
LOOK_S: Final = 60.0
REJOIN_S: Final = 150.0
"""So long after a fault of the registry every pod that runs is there again."""
PODS: Final = 12
FOLDER: Final = "/discovery/web/prod"
OPTIONS: Final = SignerOptions(trust_domain="test.example", cluster="a", lifetime_s=14_400)
FORBIDDEN: Final = (backends.CANARY, "PRIVATE KEY", "eyJhbGci")
"""Of secrets and the store's tokens, of keys, and of the tokens of pods."""
CLOCK_S: Final[dict[str, float]] = {"ahead": 5 * HOUR_S, "behind": -HOUR_S}
"""What the clocks of new pods are off by."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One fault of one backend."""

    backend: str
    kind: str
    begins_s: float
    ends_s: float


def drawn(seed: int) -> list[Episode]:
    """The faults of a world: three at most, each of another backend, so that no certificate may end
    for want of two. The first kind goes round with the seeds."""
    draw, kinds = random.Random(seed), list(backends.FAULTS)
    first = kinds[seed % len(kinds)]
    others = [kind for kind in kinds if kind[0] != first[0]]
    draw.shuffle(others)
    episodes: list[Episode] = []
    for backend, kind in (first, *others):
        group = _group(backend)
        if len(episodes) < 1 + seed % 3 and group not in {
            _group(each.backend) for each in episodes
        }:
            length_s = HOUR_S if draw.random() < 0.5 else draw.uniform(600.0, HOUR_S)
            begin_s = draw.uniform(900.0, LENGTH_S - QUIET_S - length_s)
            episodes.append(Episode(backend, kind, begin_s, begin_s + length_s))
    return episodes


def _group(backend: str) -> str:
    return "identity" if backend in ("signer", "authority", "clocks") else backend


class Maker:
    """Makes keys in this process: virtual time has no others. The code is that of the child."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._renewal: Renewal | None = None
        self._order: dict[str, Any] = {}

    async def tell(self, words: Any) -> dict[str, Any]:
        if self._renewal is None:
            self._order = dict(words)
            self._renewal = Renewal(words, self._pod.wall)
            return self._renewal.request()
        try:
            return {"facts": self._renewal.finish(words)}
        except (CertificateRefused, OSError) as bad:
            return refusal(bad, self._order)


@dataclass
class SimPod:
    """One pod, and the kubelet that keeps it."""

    name: str
    number: int
    play: "Play"
    folder: Path
    begins_s: float
    artifact: str = "flags.tar"
    ends_s: float = float("inf")
    crashes_s: float = float("inf")
    waits_since_s: float = 0.0
    why: str = ""
    """What its kubelet knows of why it does not run."""
    up_s: float | None = None
    """Since when it runs and was ready; None before, and when it ends."""
    off_s: float = 0.0
    registry: EmbeddedRegistry | None = None
    sidecar: Sidecar | None = None
    sidecar_since_s: float = float("inf")

    def __post_init__(self) -> None:
        self.id = SpiffeId(OPTIONS.trust_domain, "ads", "web")
        self.application: Simulated = self.play.network.application(self.number)
        self.entry = Entry(FOLDER, f"{self.number:032x}", self.application.ip, 8080)
        loop = asyncio.get_running_loop()
        draw = random.Random(f"{self.play.seed} {self.name}")
        self.pod = Pod(
            env={},
            monotonic=loop.time,
            # Whole milliseconds, upwards: virtual time does not move for less than half of one millionth.
            wall=lambda: math.ceil((self.play.backends.now_s() + self.off_s) * 1000) / 1000,
            chance=draw.random,
        )

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def parts(self, *, sidecar: bool) -> list[Part]:
        play, pod = self.play, self.pod
        root = play.backends.authority.root.pem.decode()
        line = SignerLine(play.backends.weather, play.member.signer.answer)
        signer = Signer(backends.SIGNER, self.folder / "token", lambda: root, line)
        identity = self.folder / "identity"
        place = Place(backends.STORE, "secret", "", str(self.id))
        store = OpenBaoStore(place, identity, "", pod.monotonic, play.backends.store)
        tree = ConfigTree(named(self.artifact), digest(backends.FILES[self.artifact]), "app")
        made: list[Part] = [
            Renewed(pod, self.id, signer, identity, "0600", makers=lambda: contextlib.nullcontext(Maker(pod))),
            Secrets(pod, [SecretFile(backends.SECRET, "password", "db")], store, self.folder / "secrets", POLL_S),
            Configuration(pod, [tree], lambda scheme, stopped: store_of(play.backends.line, scheme, stopped),
                          self.folder / "config"),
        ]  # fmt: skip
        if sidecar:
            self.registry = EmbeddedRegistry(play.backends.directory, session_s=SESSION_S)
            probe = Probe.of({"httpGet": {"port": 8080}, "periodSeconds": int(PERIOD_S)})
            settings = Settings(self.entry, {"app": probe}, EMBEDDED, drain_s=15.0)
            made.append(
                TrafficPart(
                    settings,
                    self.registry,
                    self.state,
                    ask=play.network.ask,
                    clock=pod.monotonic,
                    chance=pod.chance,
                )
            )
        return made

    async def live(self) -> None:
        await asyncio.sleep(self.begins_s)
        for name in ("state", "identity", "secrets", "config"):
            (self.folder / name).mkdir(parents=True)
        self.off_s = CLOCK_S.get(self.play.backends.weather.at("clocks"), 0.0)
        self.waits_since_s = self.play.now_s
        await self._token()
        tokens = asyncio.create_task(self._tokens())
        try:
            await self._initialize()
            while await self._run():
                pass
        finally:
            tokens.cancel()

    async def _tokens(self) -> None:
        """The kubelet keeps the token in its file fresh."""
        while True:
            await asyncio.sleep(1500.0)
            await self._token()

    async def _token(self) -> None:
        (self.folder / "token").write_text(await self.play.member.token())

    async def _initialize(self) -> None:
        pause_s = RESTART_S[0]
        while True:
            self.why = await running.init(self.parts(sidecar=False), self.pod, self.state, INIT_S)
            self.play.scan("a termination message", self.why)
            if not self.why:
                return
            self.play.seen["init runs that gave up"] += 1
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RESTART_S[1])

    async def _run(self) -> bool:
        """Whether it is to be run again: it has crashed."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        self.sidecar_since_s = self.play.now_s
        self.sidecar = Sidecar(self.parts(sidecar=True), self.pod, self.state, tick_s=30.0)
        work = asyncio.create_task(self.sidecar.keep_up(stop), name=f"sidecar {self.name}")
        await asyncio.sleep(5.0)
        await self.application.start()
        while loop.time() < min(self.ends_s, self.crashes_s):
            if work.done():
                work.result()
            ready = (await self.sidecar.answer("/readyz", inside=False))[0] == 200
            if ready and self.up_s is None:
                self.up_s, self.why = loop.time(), ""
            await asyncio.sleep(10.0)
        if self.crashes_s <= loop.time():
            self.crashes_s = float("inf")
            self.up_s = None
            self.waits_since_s = loop.time()
            assert self.registry is not None
            self.registry.cut = True  # a process that is killed says nothing to the registry
            work.cancel()
            await asyncio.wait([work])
            self.play.seen["crashed"] += 1
            return True
        self.up_s = None
        status, _, said = await self.sidecar.answer("/drain", inside=False)
        self.play.scan("an answer", said)
        if status != 200 or self.listed:
            self.play.seen["ended with its entry"] += 1
            if not self.play.lately("registry", REJOIN_S):
                raise Broken(self.play.seed, RUNS, f"{self.name} ends, and its entry is there")
        self.sidecar = None
        await self.application.end()
        stop.set()
        await work
        self.play.seen["ended"] += 1
        return False

    @property
    def listed(self) -> bool:
        return self.entry.node in self.play.backends.directory.folders.get(FOLDER, {})

    @property
    def just_begun(self) -> bool:
        """Whether its sidecar was started so lately that it has nothing to tell."""
        return 0.0 <= self.play.now_s - self.sidecar_since_s < LOOK_S

    def told(self) -> str:
        """Why it waits, as its state file says, or its termination message."""
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads((self.state / running.STATE_FILE).read_text())
            if kept["trouble"]:
                return str(kept["trouble"])
        return self.why


@dataclass
class Play:
    """One world."""

    seed: int
    top: Path
    seen: Counter[str] = field(default_factory=Counter)
    network: Network = field(default_factory=Network)
    pods: list[SimPod] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    checked: dict[str, str] = field(default_factory=dict)
    ended_s: dict[str, float] = field(default_factory=dict)
    """Part -> when the last fault that concerns it ended; far ahead while one is there."""
    words: dict[str, set[str]] = field(default_factory=dict)
    """Part -> what its faults make pods say."""

    def __post_init__(self) -> None:
        self.begun_s = asyncio.get_running_loop().time()
        self.episodes = drawn(self.seed)
        self.backends = Backends(inprocess.EPOCH_S)
        self.cluster = inprocess.cluster()
        self.member = Member(self.cluster, OPTIONS)
        self.member.signer.issuer.authority = self.backends.authority
        draw = random.Random(self.seed)
        inside = [draw.uniform(each.begins_s, each.ends_s) for each in self.episodes]
        begins = [draw.uniform(1.0, 60.0) for _ in range(PODS // 2)] + inside
        begins += [draw.uniform(60.0, LENGTH_S - HOUR_S) for _ in range(PODS - len(begins))]
        for number, at_s in enumerate(begins, 1):
            self.pods.append(SimPod(f"web-{number}", number, self, self.top / str(number), at_s))
        self.pods[0].crashes_s = draw.uniform(0.2, 0.8) * LENGTH_S
        self.pods[1].ends_s = draw.uniform(0.2, 0.8) * LENGTH_S
        if self.seed % 4 == 0:
            self.pods[-1].artifact = "climbing.tar"

    @property
    def now_s(self) -> float:
        return asyncio.get_running_loop().time() - self.begun_s

    def scan(self, where: str, text: str) -> None:
        for word in FORBIDDEN:
            if word in text:
                at = max(text.index(word) - 80, 0)
                self.leaks.append(f"{word} is in {where}: {text[at : at + 160]}")

    def _tight(self) -> None:
        """A part may catch what is raised while it logs, so leaks are told here. Raises Broken."""
        if self.leaks:
            raise Broken(self.seed, LEAKS, self.leaks[0])

    def lately(self, part_or_backend: str, within_s: float) -> bool:
        """Whether a fault concerned it within this time."""
        return self.now_s - self.ended_s.get(part_or_backend, -1e9) < within_s

    async def happens(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in self.pods:
                group.create_task(each.live(), name=each.name)
            for episode in self.episodes:
                group.create_task(self._befalls(episode))
            group.create_task(self._rotate())

    async def _befalls(self, episode: Episode) -> None:
        await asyncio.sleep(episode.begins_s)
        part, words = backends.FAULTS[episode.backend, episode.kind]
        self.backends.begins(episode.backend, episode.kind)
        self.words.setdefault(part, set()).update(words)
        self.ended_s[part] = self.ended_s[episode.backend] = float("inf")
        await asyncio.sleep(episode.ends_s - episode.begins_s)
        self.backends.ends(episode.backend)
        self.ended_s[part] = self.ended_s[episode.backend] = self.now_s
        for pod in self.pods if episode.backend == "clocks" else ():
            pod.off_s = 0.0

    async def _rotate(self) -> None:
        draw = random.Random(self.seed + 1)
        for _ in range(3):
            await asyncio.sleep(draw.uniform(0.1, 0.25) * LENGTH_S)
            self.backends.store.rotate()
            self.seen["rotated"] += 1

    # -- rules ----------------------------------------------------------------

    async def look(self) -> None:
        self._tight()
        for each in self.pods:
            await self._scan(each)
            if each.up_s is not None:
                await self._runs(each)
            elif each.begins_s + 5.0 < self.now_s < each.ends_s and not each.just_begun:
                self._waits(each)

    async def _scan(self, each: SimPod) -> None:
        with contextlib.suppress(OSError):
            self.scan("the state file", (each.state / running.STATE_FILE).read_text())
        if each.sidecar is not None:
            for path in ("/state", "/readyz"):
                self.scan(path, (await each.sidecar.answer(path, inside=True))[2])

    async def _runs(self, each: SimPod) -> None:
        assert each.up_s is not None
        assert each.sidecar is not None
        self.seen["looks at pods that run"] += 1
        if each.artifact == "climbing.tar":
            raise Broken(self.seed, CLIMBS, f"{each.name} runs with an archive that climbs")
        identity = each.folder / "identity"
        tree = os.readlink(identity / "..data")
        if self.checked.get(each.name) != tree or self.now_s % 600.0 < LOOK_S:
            if why := self.backends.holds((identity / tree / "tls.crt").read_bytes(), each.id):
                raise Broken(
                    self.seed, RUNS, f"at {self.now_s:.0f} s peers refuse {each.name}: {why}"
                )
            if each.name in self.checked and self.checked[each.name] != tree:
                self.seen["renewed"] += 1
            self.checked[each.name] = tree
        value = (each.folder / "secrets" / "db").read_text()
        if value not in self.backends.store.versions:
            raise Broken(self.seed, RUNS, f"{each.name} has {len(value)} bytes that are no secret")
        flags = each.folder / "config" / "app" / "flags" / "a.json"
        if not flags.exists() or flags.read_bytes() != b'{"on": true}':
            raise Broken(self.seed, RUNS, f"{each.name} has another configuration")
        status, _, said = await each.sidecar.answer("/readyz", inside=True)
        if status != 200:
            raise Broken(self.seed, RUNS, f"{each.name} is not ready any more: {said}")
        if not each.listed and not self.lately("registry", REJOIN_S):
            raise Broken(self.seed, RUNS, f"{each.name} runs and is not in the registry")
        if value != self.backends.store.versions[-1]:
            self._late(each)

    def _late(self, each: SimPod) -> None:
        """A pod with a former version of its secret."""
        since_s = max(each.up_s or 0.0, self.ended_s.get("secrets", 0.0), self.rotated_s)
        if self.now_s - since_s > 2 * POLL_S:
            raise Broken(self.seed, FOLLOWS, f"{each.name} has a former version of its secret")

    @property
    def rotated_s(self) -> float:
        versions = len(self.backends.store.versions)
        if versions != self._versions:
            self._versions, self._rotated_s = versions, self.now_s
        return self._rotated_s

    _versions: int = 1
    _rotated_s: float = 0.0

    def _waits(self, each: SimPod) -> None:
        waits_s = self.now_s - each.waits_since_s
        told = each.told()
        message = told.partition(": ")[2]
        if each.artifact == "climbing.tar" and "outside of its folder" in message:
            self.seen["climbing archives refused"] += 1
            return
        if each.artifact == "climbing.tar" and message.startswith("the certificate expired"):
            return  # after four hours in which it could not start; the next init run has a new one
        if not told and each.sidecar is not None:
            return  # it is ready, and its kubelet has not asked yet
        ends_s = max(self.ended_s.values(), default=0.0)
        if waits_s > SOON_S and self.now_s - ends_s > SOON_S + backends.TRICKLE_S * (
            "artifacts" in self.ended_s
        ):
            raise Broken(self.seed, RECOVERS, f"{each.name} waits since {waits_s:.0f} s: {told}")
        if waits_s > INIT_S / 2 + LOOK_S:
            self._unexplained(each, told)

    def _unexplained(self, each: SimPod, told: str) -> None:
        """Raises Broken, unless what a pod tells is what a fault makes it tell."""
        part, _, message = told.partition(": ")
        if self.lately(part, ECHO_S) and any(word in message for word in self.words.get(part, ())):
            self.seen[f"{part} waits"] += 1
            return None
        if each.why and told != each.why:
            return self._unexplained(each, each.why)  # as `kubectl describe` shows the run before
        faults = ", ".join(f"{each.backend} {each.kind}" for each in self.episodes)
        raise Broken(
            self.seed, WAITS, f"{each.name} says {told!r} at {self.now_s:.0f} s; faults: {faults}"
        )

    def end(self) -> None:
        self._tight()
        for each in self.pods:
            if each.artifact != "climbing.tar" and each.up_s is None and each.ends_s > LENGTH_S:
                raise Broken(
                    self.seed, RECOVERS, f"{each.name} does not run at the end: {each.told()}"
                )
        if found := list(self.top.rglob("climbed")):
            raise Broken(self.seed, CLIMBS, f"{found[0]} was written by an archive")
        self.seen.update(f"{backend} {kind}" for backend, kind in self.backends.weather.fired)


async def _play(seed: int) -> Counter[str]:
    top = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="runtimes-"))
    try:
        play = Play(seed, top)
        asyncio.get_running_loop().run_in_executor = play.backends.threads.run_in_executor  # type: ignore[method-assign,assignment]
        with backends.listening(play.scan) as heard:
            await play.member.furnish()
            await play_until(play, LENGTH_S, play.happens(), every_s=LOOK_S)
            play.end()
            play.seen["lines of log scanned"] = heard.lines
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return play.seen


CAMPAIGN: Final = Campaign(
    __doc__ or "",
    _play,
    wanted=(
        *(f"{backend} {kind}" for backend, kind in backends.FAULTS),
        "renewed",
        "crashed",
        "ended",
    ),
)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))

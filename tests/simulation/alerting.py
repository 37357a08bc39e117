"""The alerts of deploy/monitoring over a simulated federation: what its hub publishes is sampled
every virtual minute, and promtool evaluates the rules on the samples.

A story is a list of phases. Each phase begins and ends faults, lets time pass, and says which alerts
fire at its end, with their owners. Nothing here evaluates a rule.
"""

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from federator.hub.options import HubOptions
from federator.kube import selfsigned
from federator.kube.login import kubeconfigs
from federator.kube.login.kubeconfigs import MemberAccess
from federator.kube.metrics import Metrics
from federator.model.steps import ObjectRef
from tests import virtual_time
from tests.faults import boxes
from tests.monitoring import queries
from tests.unit.hub.test_success_rates import mark_nodes
from tests.unit.hub.world import HUB, World, between, service, small_fleet

MINUTE_S: Final = 60.0
PLATFORM: Final = "platform"
ADS: Final = "ads-team"
PSVC: Final = "PinterestService"
SMALL: Final = 12
"""Services that are changed together."""
_SAMPLE: Final = re.compile(r"^(\w+)(\{.*\})? (\S+)$")
_OBJECTIVE: Final = 'le="60.0"'

Firing = frozenset[tuple[str, str]]
"""(alert, owner)."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What happens, for how long, and what fires at the end of it."""

    name: str
    act: Callable[["Alerted"], Awaitable[None]]
    minutes: int
    fires: Firing = frozenset()


class Alerted(World):
    """A federation whose hub is scraped every minute while it runs."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.federation.metrics = Metrics()
        self.samples: list[dict[str, float]] = []
        self._read = frozenset().union(*(queries.read(rule["expr"]) for rule in queries.rules()))
        self._began_s = self.federation.clock.now()

    async def pass_minutes(self, minutes: int) -> None:
        for _ in range(minutes):
            await asyncio.sleep(MINUTE_S)
            self.samples.append(dict(self._scraped()))

    def _scraped(self) -> Iterator[tuple[str, float]]:
        if HUB not in self.federation.tasks or self.federation.metrics is None:
            return
        for line in self.federation.metrics.render().decode().splitlines():
            match = _SAMPLE.match(line)
            if match is None or match[1] not in self._read:
                continue
            if match[1].endswith("_bucket") and _OBJECTIVE not in line:
                continue
            value = float(match[3])
            if match[1].endswith("_timestamp_seconds") and value:
                value -= self._began_s  # promtool's time begins at 0
            yield f"{match[1]}{match[2] or ''}", value

    # -- faults that only these stories have -------------------------------------------------------

    async def restart_hub(self) -> None:
        self.federation.metrics = Metrics()
        self.federation.start_hub()

    async def pause(self, paused: bool) -> None:
        switch = ObjectRef("v1", "configmaps", "federator-system", "federator", "ConfigMap")
        meta = {"name": switch.name, "namespace": switch.namespace}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        if paused:
            await self.host.create(switch, {**body, "data": {"paused": "true"}})
        else:
            uid = (await self.host.get(switch))["metadata"]["uid"]
            await self.host.delete(switch, uid=uid)

    def refuse_decisions(self) -> None:
        """The host lets the hub write no PlacementDecision."""
        asked = between(HUB, "host")
        self.put(
            boxes.answering(
                lambda sending: (
                    sending.writes
                    and "/placementdecisions" in sending.request.path
                    and asked(sending)
                ),
                boxes.forbidden,
            )
        )

    async def certificate(self, cluster: str, days: int) -> None:
        """The hub's credentials there are a certificate that ends in so many days."""
        made_s = self.federation.clock.now() - (3650 - days) * 86400.0
        own = selfsigned.made("hub", dns=["federator-hub"], now_s=made_s)
        access = MemberAccess(
            "https://api.example:6443", own.ca_pem, cert_pem=own.cert_pem, key_pem=own.key_pem
        )
        text = base64.b64encode(kubeconfigs.written(access).encode()).decode()
        name, space = f"{cluster}-{days}", "federator-clusters"
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": space},
            "data": {"kubeconfig": text},
        }
        await self.host.create(ObjectRef("v1", "secrets", space, name, "Secret"), body)
        spec = {"credentials": {"secretRef": {"name": name}}}
        await self.patch("MemberCluster", "", cluster, {"spec": spec})


async def nothing(world: Alerted) -> None:
    """Nothing goes wrong."""


async def changes_are_slow(world: Alerted) -> None:
    """Services change quickly, and then while a member process is away for longer than the objective."""
    fewer = {"spec": {"replicas": 2}}
    for number in range(SMALL):
        await world.patch(PSVC, "feed", f"small-{number}", fewer)
    await world.pass_minutes(2)
    await world.federation.kill("member b")
    new = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
    for number in range(SMALL):
        await world.patch(PSVC, "feed", f"small-{number}", new)
    await asyncio.sleep(75)
    world.federation.start_member("b")


async def much_is_wrong(world: Alerted) -> None:
    """Copies never become ready; Reserved copies for which nothing is in reserve; a certificate
    near its end; watches that end as soon as they begin."""
    broken = service(8, project="ads")
    broken["template"]["metadata"] = {"annotations": {"embedded.federator/never-ready": "true"}}
    await world.create(PSVC, "ads", "broken", broken)
    await world.patch(PSVC, "ads", "web", {"spec": {"replicas": 40}})
    await world.certificate("a", 10)
    world.close_watches("b")


async def much_is_well(world: Alerted) -> None:
    await world.delete(PSVC, "ads", "broken")
    await world.patch(PSVC, "ads", "web", {"spec": {"replicas": 6}})
    await world.certificate("a", 3000)
    world.clear()


async def watches_break(world: Alerted) -> None:
    world.close_watches("b")


async def watches_stand(world: Alerted) -> None:
    world.clear()


async def one_is_lost(world: Alerted) -> None:
    await world.cut("b")


async def all_are_lost(world: Alerted) -> None:
    await world.cut("a", "b")


async def all_return(world: Alerted) -> None:
    world.heal()


async def paused(world: Alerted) -> None:
    await world.pause(True)
    await world.federation.kill("member b")


async def resumed(world: Alerted) -> None:
    await world.pause(False)
    world.federation.start_member("b")


async def refused(world: Alerted) -> None:
    world.refuse_decisions()
    await world.create(PSVC, "feed", "late", service(2))


async def accepted(world: Alerted) -> None:
    world.clear()


async def nodes_are_sick(world: Alerted) -> None:
    """Pods that start in b do not become ready there from now on, and all of them start anew."""
    await mark_nodes(world, "b", "true")
    await _start_anew(world, "b")


async def nodes_are_well(world: Alerted) -> None:
    await mark_nodes(world, "b", None)
    await _start_anew(world, "b")


async def _start_anew(world: Alerted, cluster: str) -> None:
    client = world.user(cluster)
    for pod in (await client.list("v1", "pods", "feed")).items:
        ref = ObjectRef("v1", "pods", "feed", pod["metadata"]["name"], "Pod")
        await client.delete(ref, uid=pod["metadata"]["uid"])


async def no_hub(world: Alerted) -> None:
    await world.federation.kill(HUB)


def firing(*alerts: str, owner: str = PLATFORM) -> Firing:
    return frozenset((f"Federator{alert}", owner) for alert in alerts)


WATCHES: Final = (
    Phase("all is well", nothing, 5),
    Phase("watches break", watches_break, 15, firing("WatchBroken")),
    Phase("watches stand", watches_stand, 5),
)
FAILING: Final = (
    Phase("all is well", nothing, 5),
    Phase("nodes are sick", nodes_are_sick, 50, firing("ClusterFails", "CopiesNotReady")),
    Phase("nodes are well", nodes_are_well, 45),
)
WHOLE: Final = (
    Phase("all is well", nothing, 10),
    Phase(
        "changes are slow",
        changes_are_slow,
        4,
        firing("ReconcileBudgetBurnsFast", "ReconcileBudgetBurnsSlowly"),
    ),
    Phase(
        "much is wrong",
        much_is_wrong,
        21,
        firing("ReconcileBudgetBurnsSlowly", "DrillFails", "CredentialEnds", "WatchBroken")
        | firing("CopiesNotReady", owner=ADS),
    ),
    Phase("much is well", much_is_well, 14),
    Phase(
        "a cluster is lost",
        one_is_lost,
        18,
        firing("ClusterLost", "DrillFails") | firing("QuotaNotCovered", owner="capacity-team"),
    ),
    Phase("it returns", all_return, 6),
    Phase("decisions are refused", refused, 16, firing("DecisionsFail", "CopiesNotReady")),
    Phase("they are accepted, late", accepted, 14, firing("ReconcileBudgetBurnsSlowly")),
    Phase(
        "all clusters are lost",
        all_are_lost,
        13,
        firing("ClusterLost", "BrakeOn", "ReconcileBudgetBurnsSlowly"),
    ),
    Phase("they return", all_return, 5),
    Phase("a pause, and no member process", paused, 13, firing("BrakeOn", "MemberSilent")),
    Phase("both end", resumed, 5),
    Phase("no hub", no_hub, 4, firing("NoLeader")),
    Phase("it starts again", Alerted.restart_hub, 4),
    Phase("all is well again", nothing, 5),
)


@dataclass(frozen=True, slots=True)
class Told:
    """What a story gave: samples by minute, and when which phase ended."""

    samples: Sequence[Mapping[str, float]]
    phases: Sequence[tuple[int, Phase]] = field(default_factory=tuple)

    def write(self, directory: Path) -> Path:
        """The story as a test file for promtool, next to the rules."""
        rules = queries.RULES.read_text(encoding="utf-8")
        (directory / "rules.yml").write_text(rules, encoding="utf-8")
        names = sorted({name for sample in self.samples for name in sample})
        case = {
            "interval": "1m",
            "input_series": [
                {"series": name, "values": " ".join(self._values(name))} for name in names
            ],
            "promql_expr_test": [_expected(minute, phase) for minute, phase in self.phases],
        }
        text = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [case]}
        path = directory / "story.json"
        path.write_text(json.dumps(text, indent=1), encoding="utf-8")
        return path

    def _values(self, name: str) -> Iterator[str]:
        """Of each minute: a value, `stale` when a scrape lacks it first, `_` later."""
        before = False
        yield "_"  # minute 0
        for sample in self.samples:
            value = sample.get(name)
            yield repr(value) if value is not None else "stale" if before else "_"
            before = value is not None


def _expected(minute: int, phase: Phase) -> dict[str, Any]:
    samples = [
        {"labels": f'{{alertname="{name}",owner="{owner}"}}', "value": 1}
        for name, owner in sorted(phase.fires)
    ]
    expr = 'group by (alertname, owner) (ALERTS{alertstate="firing"})'
    return {"expr": expr, "eval_time": f"{minute}m", "exp_samples": samples}


async def _populate(world: Alerted) -> None:
    """An account with Reserved copies and an owner, one above it, and small services of nobody."""
    promised = {
        "Reserved": {"guaranteed": {"cpu": "20"}, "max": {"cpu": "60"}},
        "OnDemand": {"guaranteed": {"cpu": "20"}},
    }
    company = {"owner": {"team": "capacity-team"}, "tiers": promised, "unknownProjects": "Allow"}
    await world.create("FederatedQuota", "", "company", company)
    ads = {"parent": "company", "owner": {"team": ADS}, "projects": ["ads"], "namespaces": ["ads"]}
    await world.create("FederatedQuota", "", "ads", ads)
    await world.create(PSVC, "ads", "web", service(6, cpu="1", project="ads", tier="Reserved"))
    for number in range(SMALL):
        await world.create(PSVC, "feed", f"small-{number}", service(3, cpu="100m"))
    await world.settle()


def play(story: Sequence[Phase]) -> Told:
    """Plays a story on virtual time."""
    told: list[Told] = []

    async def main() -> None:
        world = Alerted(small_fleet(2), HubOptions(), 1, election=True)
        ends: list[tuple[int, Phase]] = []
        try:
            await world.federation.start()
            await _populate(world)
            for phase in story:
                await phase.act(world)
                await world.pass_minutes(phase.minutes)
                ends.append((len(world.samples), phase))
            world.federation.check()
        finally:
            await world.federation.stop()
        told.append(Told(world.samples, ends))

    virtual_time.run(main())
    return told[0]

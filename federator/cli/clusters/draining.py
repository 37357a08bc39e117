"""`federator cluster drain`, `undrain` and `declare-dead`, and `federator fence`: the wish is a
field of the MemberCluster, the hub does the work, and this command watches. Ctrl-C ends the
watching and nothing else.

`--dry-run` asks the same function as the hub does (`scheduling.evacuation`), with what the host's
objects say of the fleet.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from federator.cli import common
from federator.cli.rollouts import waiting
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.kube.client import Client
    from federator.scheduling.evacuation import Rehearsed

T = TypeVar("T")
SHOWN: Final = 20
"""Lines of a rehearsal that are printed for those that move."""


def _watching(what: str) -> Callable[[common.F], common.F]:
    """The options of a command that watches what the hub goes on with."""

    def options(command: common.F) -> common.F:
        command = click.option(
            "--no-wait", is_flag=True, help=f"Return immediately. The {what} continues."
        )(command)
        return click.option(
            "--timeout",
            type=waiting.Duration(),
            default="0",
            help=f"Stop watching after this time, such as 30m; the {what} goes on. 0: never.",
        )(command)

    return options


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "-l", "--selector", default="", help="Clusters with these labels, as zone=us-east-1a."
)
@click.option("--dry-run", is_flag=True, help="Say where everything would go; change nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="Also when copies would have no other place: these stay there, and are named.",
)
@click.option(
    "--leave",
    is_flag=True,
    help="Leave ordinals of stateful sets there, which no drain moves; refuse when anything else"
    " would have no other place.",
)
@click.option(
    "--jobs-finish",
    type=waiting.Duration(),
    default=None,
    help="How long running job sets may finish there before they restart in other clusters; 0"
    " restarts them immediately (default: 1h).",
)
@_watching("drain")
@common.connection_options
def drain(
    names: tuple[str, ...],
    selector: str,
    dry_run: bool,
    force: bool,
    leave: bool,
    jobs_finish: float | None,
    timeout: float,
    no_wait: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Move everything in clusters to others, at a pace and with what was promised ready all the
    time, and keep new work away until `undrain`. A drain that would leave somebody without a place
    is refused, and nothing is drained when one of the names is wrong. Ctrl-C ends the watching; the
    drain goes on. Again, it watches what goes on."""
    wish: dict[str, Any] = {"force": True} if force else {}
    if jobs_finish is not None:
        wish["jobsFinishSeconds"] = int(jobs_finish)
    if dry_run and no_wait:
        common.fail("--dry-run changes nothing, so there is nothing that --no-wait would leave")
    if leave and force:
        common.fail("--force leaves all that has no other place, ordinals too: give one of the two")

    async def work(host: "Client") -> bool:
        chosen = await _chosen(host, names, selector)
        for obj in chosen:
            if obj["metadata"].get("deletionTimestamp"):
                common.fail(f"{_name(obj)} is being removed, which empties it too")
        if dry_run:
            return _shown(await _rehearsed(host, [_name(obj) for obj in chosen]), leave=leave)
        if leave and not await _may_leave(host, [_name(obj) for obj in chosen], wish):
            return False
        asked = await _each(chosen, lambda obj: _ask(host, obj, wish))
        well = len(asked) == len(chosen)
        if no_wait:
            for obj in asked:
                common.say(f"membercluster.federation.pinterest.com/{_name(obj)} is to be drained")
            return well
        watch = Watch(host, {_name(obj): obj["metadata"]["generation"] for obj in asked})
        ended = await waiting.until(waiting.Hub(host), timeout, watch.look)
        for name in sorted(watch.refused - watch.ended):
            await _take_back(host, next(obj for obj in chosen if _name(obj) == name))
        if not ended:
            left = ", ".join(sorted(watch.open))
            common.say(
                f"the drain of {left} goes on; to end it: federator cluster undrain", err=True
            )
        return well and ended and not watch.refused

    common.finish(kubeconfig, context, work)


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "-l", "--selector", default="", help="Clusters with these labels, as zone=us-east-1a."
)
@common.connection_options
def undrain(names: tuple[str, ...], selector: str, kubeconfig: str, context: str) -> None:
    """End the drain of clusters, also of clusters that are not empty yet. No more copies leave, and
    the clusters accept new copies again. Copies that have left do not come back."""

    async def undrained(host: "Client", obj: Mapping[str, Any]) -> None:
        if (obj.get("spec") or {}).get("drain") is None:
            common.say(f"{_name(obj)} is {_why_not_undrained(obj)}.")
            return
        await _take_back(host, {**obj, "spec": {}})
        common.say(f"membercluster.federation.pinterest.com/{_name(obj)} is drained no more")

    async def work(host: "Client") -> bool:
        chosen, missing = await _existing(host, names, selector)
        for line in missing:
            common.say(f"error: {line}", err=True)
        done = await _each(chosen, lambda obj: undrained(host, obj))
        return not missing and len(done) == len(chosen)

    common.finish(kubeconfig, context, work)


def _why_not_undrained(obj: Mapping[str, Any]) -> str:
    """What is to be said of a cluster that nobody asked to be drained."""
    from federator.api import membercluster
    from federator.kube.clock import RealClock

    wish = membercluster.drain_wish(obj, RealClock().now())
    if wish is None:
        return "not being drained"
    return (
        f"drained for its maintenance window of {wish.window}, and ends with it; to end it now,"
        " take drain out of that window (spec.maintenance)"
    )


@click.command(name="declare-dead")
@click.argument("name")
@click.option("--undo", is_flag=True, help="Withdraw the declaration: no more copies move.")
@_watching("failover")
@common.connection_options
def declare_dead(
    name: str, undo: bool, timeout: float, no_wait: bool, kubeconfig: str, context: str
) -> None:
    """Declare an unreachable cluster dead: nothing runs there any more. Its copies fail over to
    other clusters, at the pace of drains. It stays a member. When it is reachable again, no more
    copies move, and the copies that failed over are removed there."""

    word = _Word("declaredDead", "declared dead", "federator cluster declare-dead")
    _say_lost(word, name, undo, timeout, no_wait, kubeconfig, context)


@click.command()
@click.argument("name")
@click.option("--undo", is_flag=True, help="Withdraw the declaration: no more copies move.")
@_watching("failover")
@common.connection_options
def fence(
    name: str, undo: bool, timeout: float, no_wait: bool, kubeconfig: str, context: str
) -> None:
    """Fence an unreachable cluster: you confirm that nothing runs there any more, because its
    machines are off, or cut off from everything that the workloads write to. Its copies fail over,
    as with `cluster declare-dead`. Shards of Exclusive job sets fail over too, which happens in no
    other way. If something still runs there, these shards run twice. The fence ends when the
    cluster is reachable again."""
    word = _Word("fenced", "fenced", "federator fence")
    _say_lost(word, name, undo, timeout, no_wait, kubeconfig, context)


@dataclass(frozen=True, slots=True)
class _Word:
    """What a person says of a silent cluster."""

    field: str
    said: str
    command: str


def _say_lost(
    word: _Word,
    name: str,
    undo: bool,
    timeout: float,
    no_wait: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Writes the word, or takes it back, and watches the failover."""

    async def work(host: "Client") -> bool:
        from federator.cli.clusters import removal
        from federator.kinds import registry

        obj = await removal.find(host, name)
        since = None if undo else _silence(obj)
        ref = registry.KINDS["MemberCluster"].ref("", name)
        body = {"metadata": {"uid": obj["metadata"]["uid"]}, "spec": {word.field: since}}
        asked = await host.patch(ref, body)
        if undo or no_wait:
            said = f"is no longer {word.said}" if undo else f"is {word.said} since {since}"
            common.say(f"membercluster.federation.pinterest.com/{name} {said}")
            return True
        watch = Watch(host, {name: asked["metadata"]["generation"]}, "Dead", (word.field, "Moved"))
        if not await waiting.until(waiting.Hub(host), timeout, watch.look):
            common.say(
                f"the failover from {name} goes on; to end it: {word.command} {name} --undo",
                err=True,
            )
            return False
        return not watch.refused

    common.finish(kubeconfig, context, work)


def _silence(obj: Mapping[str, Any]) -> str:
    """Since when a cluster is silent. Ends the command for one that is not."""
    from federator.api import raw
    from federator.api.membercluster import NOT_ASKED, NOT_REPORTING

    name, ready = _name(obj), raw.condition(obj, "Ready")
    reason, silent = raw.text(ready, "reason"), raw.text(obj, "status", "lastHeard")
    if obj["metadata"].get("deletionTimestamp"):
        common.fail(f"{name} is being removed: federator cluster remove {name} --lost gives it up")
    if raw.text(ready, "status") == "True":
        common.fail(
            f"{name} is reachable, so it does not fail over; to move its workloads, run:"
            f" federator cluster drain {name}"
        )
    if reason == NOT_REPORTING:
        common.fail(
            f"the API server of {name} is reachable, and only its member process is silent: the"
            " workloads there keep running. Start the member process again"
        )
    if reason == NOT_ASKED:
        common.fail(
            f"the hub lacks local resources and has not probed {name}; see its log for the cause"
        )
    if not silent:
        common.fail(
            f"the hub does not count {name} as silent yet ({reason or 'it was not probed'}); if it"
            f" was never reachable, run: federator cluster remove {name} --lost"
        )
    return silent


def _name(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["name"])


async def _chosen(host: "Client", names: Sequence[str], selector: str) -> list[dict[str, Any]]:
    """Returns the named or selected MemberClusters. Ends the command if none is named or selected,
    or if a named cluster does not exist."""
    chosen, missing = await _existing(host, names, selector)
    if missing:
        common.fail(*missing)
    return chosen


async def _existing(
    host: "Client", names: Sequence[str], selector: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the named or selected MemberClusters, and a sentence for each named cluster that does
    not exist. Ends the command if none is named or selected."""
    from federator.cli.clusters import removal
    from federator.kinds import registry
    from federator.model.errors import FieldError

    if bool(names) == bool(selector):
        common.fail("name the clusters, or select them with --selector (not both)")
    if names:
        chosen, missing = [], []
        for name in dict.fromkeys(names):
            try:
                chosen.append(await removal.find(host, name))
            except FieldError as absent:
                missing.append(str(absent))
        return chosen, missing
    kind = registry.KINDS["MemberCluster"]
    selected = (await host.list(kind.api_version, kind.plural, label_selector=selector)).items
    if not selected:
        common.fail(f"no member has the labels {selector}")
    return sorted(map(dict, selected), key=_name), []


async def _each(
    chosen: Sequence[Mapping[str, Any]], act: Callable[[Mapping[str, Any]], Awaitable[T]]
) -> list[T]:
    """Returns the results for the objects that the host accepted. Prints an error for each refused
    object and goes on with the next."""
    from federator.kube import errors

    done = []
    for obj in chosen:
        try:
            done.append(await act(obj))
        except errors.ApiError as refused:
            common.say(f"error: {_name(obj)}: {refused}", err=True)
    return done


async def _ask(host: "Client", obj: Mapping[str, Any], wish: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the wish; one that is there keeps what is not said anew. Returns the object."""
    from federator.kinds import edits, registry

    ref = registry.KINDS["MemberCluster"].ref("", _name(obj))
    return await host.patch(
        ref, {"metadata": {"uid": obj["metadata"]["uid"]}, **edits.drained(wish)}
    )


async def _take_back(host: "Client", obj: Mapping[str, Any]) -> None:
    """Makes the wish what it was in `obj`."""
    from federator.kinds import edits, registry

    before = edits.drained((obj.get("spec") or {}).get("drain"))
    ref = registry.KINDS["MemberCluster"].ref("", _name(obj))
    await host.patch(ref, {"metadata": {"uid": obj["metadata"]["uid"]}, **before})


class Watch:
    """Prints how far drains are, or a failover is, each line when it changes."""

    def __init__(
        self,
        host: "Client",
        generations: Mapping[str, int],
        condition: str = "Draining",
        wish: tuple[str, str] = ("drain", "Emptied"),
    ) -> None:
        """`wish`: its field, and the reason with which it is done."""
        self.host = host
        self.condition = condition
        self.field, self.done = wish
        self.open = dict(generations)
        """Clusters that are neither done nor refused -> the generation that has the wish."""
        self.refused: set[str] = set()
        """Clusters with a drain that was refused, or ended before it was done."""
        self.ended: set[str] = set()
        self._printed: dict[str, str] = {}

    async def look(self) -> bool:
        """Whether every drain has come to an end."""
        from federator.api import raw
        from federator.cli.clusters import removal

        for name, generation in sorted(self.open.items()):
            obj = await removal.find(self.host, name)
            said = raw.condition(obj, self.condition)
            ended = (obj.get("spec") or {}).get(self.field) is None
            back = self.condition == "Dead" and raw.condition(obj, "Ready").get("status") == "True"
            if ended or back:
                self._tell(name, "it is reachable again" if back else "another user has ended it")
                self.refused.add(name)
                self.ended.add(name)
                del self.open[name]
                continue
            if self.condition == "Draining" and (lost := _loss(obj)):
                self._tell(name, f"it is unreachable; the drain continues afterwards. {lost}")
                continue
            if raw.integer(said, "observedGeneration") < generation:
                continue  # said of an earlier wish
            reason, message = raw.text(said, "reason"), raw.text(said, "message")
            moving = reason in ("Emptying", "Moving")
            self._tell(name, f"{reason}: {message}{_figures(obj) if moving else ''}")
            if raw.text(said, "status") == "False":
                self.refused.add(name)
            if reason == self.done or name in self.refused:
                del self.open[name]
        return not self.open

    def _tell(self, name: str, line: str) -> None:
        if self._printed.get(name) != line:
            self._printed[name] = line
            common.say(f"{name}: {line}")


def _loss(obj: Mapping[str, Any]) -> str:
    """The text on a cluster that is held to be lost, from which copies leave without a drain; ""
    for any other cluster."""
    from federator.api import raw

    for kind in ("FailingOver", "Dead"):
        said = raw.condition(obj, kind)
        if raw.text(said, "status") == "True":
            return f"{kind}, {raw.text(said, 'reason')}: {raw.text(said, 'message')}"
    return ""


def _figures(obj: Mapping[str, Any]) -> str:
    """Pace and end of a drain, as the rest of a line."""
    from federator.api import raw

    figures = raw.mapping(obj, "status", "drain")
    rate, end = raw.integer(figures, "perMinute"), raw.text(figures, "estimatedEnd")
    text = f" {rate} moved in the last minute" if rate else ""
    text += f"{',' if text else ''} about until {end}" if end else ""
    return f"{text}, since {raw.text(figures, 'since')}." if text else ""


async def _rehearsed(host: "Client", clusters: Sequence[str]) -> "list[Rehearsed]":
    """What a drain of these clusters would come to, by the objects of the host."""
    from federator.advice import drills
    from federator.cli.files import situations

    situation = await situations.from_host(host, "a rehearsal reads what all workloads hold")
    drained = {*clusters, *(n for n, view in situation.snapshot.clusters.items() if view.draining)}
    return drills.rehearse(situation, drills.holders(situation, drained), drained)


async def _may_leave(host: "Client", clusters: Sequence[str], wish: dict[str, Any]) -> bool:
    """Whether only ordinals have no other place. Then the wish is forced, if there are any, because
    the hub refuses it otherwise; if not, prints the rehearsal."""
    rehearsed = await _rehearsed(host, clusters)
    if any(workload.stays and not workload.numbered for workload in rehearsed):
        _shown(rehearsed)
        common.say("error: not only ordinals would stay, so nothing is drained", err=True)
        return False
    if any(workload.stays for workload in rehearsed):
        wish["force"] = True
    return True


def _shown(rehearsed: "Sequence[Rehearsed]", *, leave: bool = False) -> bool:
    """Prints a rehearsal. Returns whether everything has another place; with `leave`, everything
    but ordinals."""
    from federator.scheduling.evacuation import ORDINALS

    moving = sorted(
        rehearsed, key=lambda workload: (workload.stays - workload.before, workload.key)
    )
    goes = sum(workload.before - workload.stays for workload in rehearsed)
    stays = [workload for workload in moving if workload.stays]
    count = sum(1 for workload in rehearsed if workload.before > workload.stays)
    have = "has" if goes == 1 else "have"
    common.show(f"{_counted(goes, count)} {have} another place.")
    rows = [
        [str(workload.key), str(workload.before - workload.stays), _places(workload)]
        for workload in moving
        if workload.before > workload.stays
    ]
    if rows:
        common.show("\n" + common.table(["WORKLOAD", "MOVES", "WOULD BE IN"], rows[:SHOWN]))
    if len(rows) > SHOWN:
        more = plaintext.counted(len(rows) - SHOWN, "workload", "workloads")
        common.show(f"... and {more} more")
    if stays:
        copies = sum(workload.stays for workload in stays)
        have = "has" if copies == 1 else "have"
        common.show(f"\n{_counted(copies, len(stays))} {have} none:")
        lines = [[str(workload.key), str(workload.stays), workload.why] for workload in stays]
        common.show("\n" + common.table(["WORKLOAD", "STAYS", "WHY"], lines))
        if any(workload.numbered for workload in stays):
            common.show(f"\nNo drain moves ordinals: {ORDINALS}.")
    return not [workload for workload in stays if not (leave and workload.numbered)]


def _counted(copies: int, workloads: int) -> str:
    """`1 copy of 1 workload`, `12 copies of 3 workloads`."""
    of = plaintext.counted(workloads, "workload", "workloads")
    return f"{plaintext.counted(copies, 'copy', 'copies')} of {of}"


def _places(workload: "Rehearsed") -> str:
    shares = workload.decision.shares if workload.decision is not None else ()
    return ", ".join(f"{share.cluster} {share.slots}" for share in shares)

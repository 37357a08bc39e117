"""Mutations of how workloads live and end: endings of job sets, autoscaling and claims, each with the
rule that must catch it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from federator.hub.cache import rollout_view
from federator.hub.jobs.expiry import Expiry
from federator.hub.status.workload_status import StatusAggregation
from federator.kinds.jobset import failures, shardparts
from federator.kinds.jobset import natives as jobs
from federator.kinds.service import scaling
from federator.kinds.shared import parts
from federator.kinds.statefulset import natives as sets
from federator.member.expansion import comparing
from federator.member.rolling import RollUp
from federator.model import ending
from federator.placement import ordinals, request
from federator.scheduling import rollout
from federator.status import fold
from tests.simulation import availability, claimed, endings, scaled
from tests.simulation.invariants import all_of
from tests.simulation.mutations import Method, instead, together
from tests.simulation.running import Plant
from tests.simulation.world import World
from tests.worlds import WRITER

ENDS = ("Complete", "Failed")


def _one_too_few(original: Method) -> Method:
    def judge(rules: Any, *rest: Any, **more: Any) -> Any:
        success = rules.success
        if success is not None and success.need > 1:
            rules = replace(rules, success=replace(success, need=success.need - 1))
        return original(rules, *rest, **more)

    return judge


def _without_end(original: Method) -> Method:
    def judge(*given: Any, **more: Any) -> None:
        return None

    return judge


def _half_the_time(original: Method) -> Method:
    def left_s(self: StatusAggregation, workload: Any, start: str) -> float:
        deadline_s = workload.end_rules.deadline_s or 0
        found: float = original(self, workload, start)
        return found - deadline_s / 2

    return left_s


def _never(original: Method) -> Method:
    def look(self: Expiry, key: Any) -> None:
        return

    return look


def _too_soon(original: Method) -> Method:
    def left_s(self: Expiry, *rest: Any) -> float:
        found: float = original(self, *rest)
        return found - 3.0

    return left_s


def _taken_back(world: World) -> None:
    """Some hub says of a job set that has ended that it has not."""
    host = world.federation.host
    info = host.registry.get("pinterest.com", "pinterestjobsets")
    over = (obj for obj in all_of(host, "PinterestJobSet") if endings.ended(obj) is not None)
    if (found := next(over, None)) is None:
        return
    body = json.loads(json.dumps(found))
    kept = [one for one in body["status"]["conditions"] if one["type"] not in ENDS]
    body["status"]["conditions"] = kept
    token = WRITER.set(world.lives[world.hubs[0]])
    host.store.update(info, body)
    WRITER.reset(token)


def _job(**fields: Any) -> Any:
    """Each Job of a job set has these fields instead of its own."""

    def make(original: Method) -> Method:
        def job(*given: Any) -> dict[str, Any]:
            made: dict[str, Any] = original(*given)
            return {**made, "spec": {**made["spec"], **fields}}

        return job

    return make


def _no_rules(original: Method) -> Method:
    def rules(obj: Any) -> list[Any]:
        return []

    return rules


def _holds_the_count(original: Method) -> Method:
    def left(body: Any, row: Any) -> Any:
        return body

    return left


def _all_for_each(original: Method) -> Method:
    def bounds(obj: Any, share: int) -> tuple[int, int]:
        low, _ = original(obj, share)
        return low, max(low, int(obj.get("max", low)))

    return bounds


def _least(original: Method) -> Method:
    def charged(obj: Any) -> int:
        return max(int(obj.get("min", 1)), 1)

    return charged


def _whole(original: Method) -> Method:
    def charged(obj: Any) -> int:
        return max(int(obj.get("max", 1)), 1)

    return charged


def _owned(original: Method) -> Method:
    def claims(obj: Any, mark: Any, component: str) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = original(obj, mark, component)
        for claim in made:
            claim["metadata"]["ownerReferences"] = [parts.owner(obj)]
        return made

    return claims


def _retaining(policy: str) -> Callable[[Method], Method]:
    """Claims of a StatefulSet that is deleted or scaled get this policy."""

    def mutated(original: Method) -> Method:
        def made(*given: Any) -> dict[str, Any]:
            found: dict[str, Any] = original(*given)
            then = {"whenDeleted": policy, "whenScaled": policy}
            return {
                **found,
                "spec": {**found["spec"], "persistentVolumeClaimRetentionPolicy": then},
            }

        return made

    return mutated


def _no_homes(original: Method) -> Method:
    def homes(blocks: Any, held: Any, clusters: Any) -> Any:
        return original(request.NO_BLOCKS, held, clusters)

    return homes


def _unowned(original: Method) -> Method:
    def claims(*given: Any) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = original(*given)
        for claim in made:
            claim["metadata"].pop("ownerReferences", None)
        return made

    return claims


def _of_pods(original: Method) -> Method:
    def outlives_pods(claim: Any) -> bool:
        return False

    return outlives_pods


def _one_directory(original: Any) -> Any:
    return "$(SHARD_BASE)"


def _slots_for_all(original: Method) -> Method:
    def parallelism(obj: Any) -> dict[Any, int]:
        return {piece: piece[1] - piece[0] + 1 for piece in original(obj)}

    return parallelism


def _none_active(original: Method) -> Method:
    def figures(*given: Any) -> dict[str, Any]:
        return {**original(*given), "active": 0}

    return figures


def _none_idle(original: Method) -> Method:
    def replicas(*given: Any, **more: Any) -> Any:
        return replace(original(*given, **more), idle=0)

    return replicas


def _all_count(original: Method) -> Method:
    def counts(observed: Any, ready: int, share: Any) -> int:
        return ready

    return counts


def _part_of_all(original: Method) -> Method:
    def allowance(unit: Any, wanted: Any, observed: Any, *_: int) -> int:
        quarter = sum(share.count for share in wanted.values()) // 4
        found: int = original(unit, wanted, observed, quarter, quarter)
        return found

    return allowance


LIVED: Mapping[str, tuple[str, Plant]] = {
    "a completed shard fewer suffices": (
        endings.BY_RULES,
        instead(ending, "judge", _one_too_few),
    ),
    "a deadline comes when half of the time is over": (
        endings.BY_RULES,
        instead(StatusAggregation, "_left_s", _half_the_time),
    ),
    "a job set never ends": (endings.DUE, instead(ending, "judge", _without_end)),
    "an end is taken back": (endings.FINAL, Plant(after_script=_taken_back)),
    "a job set goes before its time to live": (
        endings.STAYS,
        instead(Expiry, "_left_s", _too_soon),
    ),
    "the time to live of a job set is forgotten": (
        endings.GONE,
        instead(Expiry, "look", _never),
    ),
    "the back-off limit of shards is not carried": (
        endings.TRIES,
        instead(jobs, "_job", _job(backoffLimitPerIndex=9)),
    ),
    "the failure policy is not carried": (endings.TRIES, instead(failures, "rules", _no_rules)),
    "a member process holds the count of a scaled service": (
        scaled.COUNT,
        instead(comparing, "_left_to_autoscaler", _holds_the_count),
    ),
    "copies that nobody asks for count while a scaled service moves": (
        availability.NAME,
        together(
            instead(rollout_view, "_counts", _all_count),
            instead(rollout, "_shrink_allowance", _part_of_all),
        ),
    ),
    "each cluster may scale to the whole": (scaled.SUMS, instead(scaling, "bounds", _all_for_each)),
    "a scaled service is charged for its least": (
        scaled.WITHIN,
        instead(scaling, "charged", _least),
    ),
    "a scaled service is always charged for all": (
        scaled.CHARGED,
        instead(scaling, "charged", _whole),
    ),
    "copies that no autoscaler asks for are told as asked for": (
        scaled.TOLD,
        instead(fold, "_replicas", _none_idle),
    ),
    "shards of a job set that has ended run on and are told as stopped": (
        endings.AFTER,
        together(
            instead(jobs, "parallelism", _slots_for_all),
            instead(RollUp, "_shard_figures", _none_active),
        ),
    ),
    "what a shard wrote goes with its pod": (
        claimed.FOUND,
        instead(shardparts, "outlives_pods", _of_pods),
    ),
    "the shards of a Job share one directory": (
        claimed.FOUND,
        instead(shardparts, "DIRECTORY", _one_directory),
    ),
    "claims that go with their job set have no owner": (
        claimed.LEFT,
        instead(shardparts, "claims", _unowned),
    ),
    "claims of ordinals stay when their set is deleted": (
        claimed.LEFT,
        instead(sets, "_set", _retaining("Retain")),
    ),
    "claims that are retained have an owner": (
        claimed.LIVES,
        instead(shardparts, "claims", _owned),
    ),
    "claims of ordinals go when they are scaled away": (
        claimed.LIVES,
        instead(sets, "_set", _retaining("Delete")),
    ),
    "ordinals that were scaled away may begin elsewhere": (
        claimed.HOME,
        instead(ordinals, "homes", _no_homes),
    ),
}
"""What is wrong -> (the rule that finds it, the mutation)."""

"""What is wrong with some of the workloads that the user of a simulated federation makes: pods that
never start or end at once, requests that fit nowhere, names of things that are not there.

Drawn from a generator of its own, so that the rest of a script is the same with and without them.
What does not settle by itself is put right at the end of the script: the end state is to be the
same whatever faults there were.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

Found = tuple[str, str, str]
"""(kind, namespace, name)"""
Body = dict[str, Any]
PREFIX = "embedded.federator/"
PER_MILLE = 350
"""Of all workloads made, so many are odd."""
MACHINE_CPU = "20"
"""More than any machine has."""


class Oddities:
    """Makes workloads odd, and remembers what to put right."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._cures: dict[Found, Body] = {}

    def made(self, found: Found, body: Body) -> Body:
        """The body of a new object, odd or as it was."""
        self._cures.pop(found, None)
        odd = self._rng.randrange(1000) < PER_MILLE
        which = self._rng.choice(sorted(ODDITIES[found[0]]))
        if not odd:
            return body
        cure = ODDITIES[found[0]][which](body, self._rng)
        if cure:
            self._cures[found] = cure
        return body

    def resized(self, found: Found, least: Body) -> None:
        """Its copies are to ask for something else: what puts it right gives them the container
        that asks for the least. Where their account is full, an edit that asks for more is held
        back, and so is what is edited after it.
        """
        if found in self._cures:
            template = _template(self._cures[found])
            template["spec"] = {**template.get("spec", {}), "containers": [least]}

    def cures(self, alive: Set[Found]) -> Iterator[tuple[Found, Body]]:
        """The patches that put right what would never settle."""
        for found, cure in sorted(self._cures.items(), key=lambda one: one[0]):
            if found in alive:
                yield found, cure


Oddity = Callable[[Body, random.Random], Body]
"""Changes the body of a workload; what is returned is the patch that puts it right, {} where that
is not needed.
"""


def _annotated(**annotations: str) -> Oddity:
    names = {PREFIX + name.replace("_", "-"): text for name, text in annotations.items()}

    def change(body: Body, rng: random.Random) -> Body:
        _template(body).setdefault("metadata", {}).setdefault("annotations", {}).update(names)
        # Both ways of putting it right: taken away, and, in a carried native kind, set to another
        # value.
        cured = "" if "selector" in body["spec"] else None
        return {"spec": {"template": {"metadata": {"annotations": dict.fromkeys(names, cured)}}}}

    return change


def _failing_shards(body: Body, rng: random.Random) -> Body:
    body["spec"]["backoffLimitPerShard"] = 0
    _annotated(fail_indexes="0", index_base_env="SHARD_BASE")(body, rng)
    return {}


def _too_big(body: Body, rng: random.Random) -> Body:
    for container in _template(body)["spec"]["containers"]:
        container["resources"]["requests"]["cpu"] = MACHINE_CPU
    return {}


def _absent_config(body: Body, rng: random.Random) -> Body:
    _template(body)["spec"]["volumes"] = [{"name": "absent", "configMap": {"name": "absent"}}]
    return {"spec": {"template": {"spec": {"volumes": []}}}}


def _placed(**fields: Any) -> Oddity:
    def change(body: Body, rng: random.Random) -> Body:
        body["spec"]["placement"] = fields
        return {}

    return change


def _template(body: Body) -> Body:
    found: Body = body["spec"]["template"]
    return found


_PODS: Mapping[str, Oddity] = {
    "an image that cannot be pulled": _annotated(image_pull_error="true"),
    "containers that end at once": _annotated(run_seconds="1", exit_code="1"),
    "pods that are never ready": _annotated(never_ready="true"),
    "a request that no machine can take": _too_big,
    "a ConfigMap that is not there": _absent_config,
}
_PLACES: Mapping[str, Oddity] = {
    "a policy that is not there": _placed(policyRef="nobody"),
    "clusters that are not there": _placed(clusters={"names": ["nowhere"]}),
}

ODDITIES: Mapping[str, Mapping[str, Oddity]] = {
    "PinterestService": {**_PODS, **_PLACES},
    "Deployment": _PODS,
    "PinterestJobSet": {
        **_PLACES,
        "a request that no machine can take": _too_big,
        "a shard that fails for good": _failing_shards,
    },
}
"""Kind -> what can be wrong with one."""

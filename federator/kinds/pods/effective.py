"""The effective request of one copy: what the scheduler in a member will count, runtime support
included.

Called on the host for every Ask and in members for pods that exist. The sums are those of the
Kubernetes scheduler.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.pods import alike
from federator.kinds.pods import inject as injection
from federator.kinds.pods.alike import Question
from federator.model import resources
from federator.model.ask import Container, PodShape, StatedPod
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity, selectors, taints
from federator.model.kubernetes.taints import Toleration
from federator.model.resources import PODS, ZERO, Resources

HOSTNAME = "kubernetes.io/hostname"
POD = f"{injection.TEMPLATE}.spec"
CLAIMS = (
    "devices of ResourceClaims are not counted in the room of clusters, so nothing can be placed by"
    " them; request an extended resource, such as nvidia.com/gpu, in resources.requests"
)


def pod_of(
    template: Obj, profile: Obj | None = None, sidecars: Obj = raw.NO_FIELDS, *, batch: bool = False
) -> tuple[PodShape, StatedPod]:
    """The shape of a pod made from this template under this profile, and what each container
    states. Raises FieldError with the field's path.

    Most workloads of a fleet are alike, so recent answers are remembered (`alike`).
    """
    pod = raw.mapping(template, "spec")
    if raw.items(pod, "resourceClaims"):
        raise FieldError(f"{POD}.resourceClaims", CLAIMS)
    injection.check_volumes(pod, profile)  # answers below are remembered without their volumes,
    injection.check_registration(pod, profile, sidecars, batch=batch)  # and without their probes
    containers = [
        (c.get("name"), c.get("resources"), c.get("ports"), c.get("restartPolicy"))
        for field in ("initContainers", "containers")
        for c in raw.objects(pod, field)
    ]
    facts = [pod.get(field) for field in _DECISIVE]
    # only rules of affinity look at the pod's own labels
    labels = raw.at(template, "metadata", "labels") if "affinity" in pod else None
    split = len(raw.objects(pod, "initContainers"))
    asked = (split, containers, facts, labels)
    return _answer(alike.question(asked, template, profile, sidecars, batch=batch))


_DECISIVE = ("resources", "overhead", "nodeSelector", "affinity", "tolerations", "hostNetwork")
"""Fields of a pod that its shape depends on, beside its containers."""


@lru_cache(maxsize=alike.REMEMBERED)
def _answer(question: Question) -> tuple[PodShape, StatedPod]:
    full = injection.inject(
        question.template, question.profile, question.sidecars, batch=question.batch
    )
    pod = raw.mapping(full, "spec")
    shape = PodShape(
        requests=pod_requests(pod),
        node_selector=node_selector(pod),
        tolerations=pod_tolerations(pod),
        one_per_node=one_per_node(full),
    )
    return shape, StatedPod(tuple(_stated(pod)), shape.requests)


def _stated(pod: Obj) -> Iterator[Container]:
    """Init containers first, in their order."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(raw.objects(pod, field)):
            path = f"{POD}.{field}[{index}]"
            limits = raw.mapping(container, "resources", "limits")
            yield Container(
                _requests(container, path),
                _vector(limits, f"{path}.resources.limits"),
                field == "initContainers" and raw.text(container, "restartPolicy") != "Always",
            )


def pod_requests(pod: Obj) -> Resources:
    """Containers and native sidecars together, or the widest moment while init containers run;
    overhead; one pod slot.

    Requests given for the pod as a whole stand in place of the sum, resource by resource.
    """
    together = resources.total(
        _requests(c, f"{POD}.containers[{i}]") for i, c in enumerate(raw.objects(pod, "containers"))
    )
    running, widest = ZERO, ZERO
    for index, container in enumerate(raw.objects(pod, "initContainers")):
        request = _requests(container, f"{POD}.initContainers[{index}]")
        if raw.text(container, "restartPolicy") == "Always":
            running = running + request
            widest = widest.upper(running)
        else:
            widest = widest.upper(running + request)
    total = (together + running).upper(widest)
    whole = _whole_pod(pod, total)
    overhead = _vector(raw.mapping(pod, "overhead"), f"{POD}.overhead")
    return Resources({**whole, PODS: 1}) + overhead


def _vector(amounts: Obj, path: str) -> Resources:
    """`quantity.vector`, which the same few amounts in every template need not pass through
    again.
    """
    try:
        return Resources([(name, _amount(name, value)) for name, value in amounts.items()])
    except (FieldError, TypeError):
        return quantity.vector(amounts, path)


@lru_cache(maxsize=8192, typed=True)
def _amount(name: str, value: Any) -> int:
    return quantity.vector({name: value})[name]


def _requests(container: Obj, path: str) -> Resources:
    """Requests; a limit stands for a request that is left out."""
    asked = raw.mapping(container, "resources", "requests")
    limits = raw.mapping(container, "resources", "limits")
    return _vector({**limits, **asked}, f"{path}.resources.{'requests' if asked else 'limits'}")


def _whole_pod(pod: Obj, total: Resources) -> Resources:
    path = f"{POD}.resources"
    asked = _vector(raw.mapping(pod, "resources", "requests"), f"{path}.requests")
    limits = _vector(raw.mapping(pod, "resources", "limits"), f"{path}.limits")
    for_the_rest = {name: amount for name, amount in limits.items() if name not in total}
    return Resources({**total, **for_the_rest, **asked})


def node_selector(pod: Obj) -> str:
    """nodeSelector and the terms of required node affinity as canonical JSON: {nodeSelector,
    nodeAffinity}; "" for none.
    """
    terms = raw.items(
        pod,
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )
    wanted = raw.present(
        {"nodeSelector": dict(raw.mapping(pod, "nodeSelector")), "nodeAffinity": list(terms)}
    )
    return json.dumps(wanted, sort_keys=True, separators=(",", ":")) if wanted else ""


def pod_tolerations(pod: Obj) -> tuple[Toleration, ...]:
    """Each once, in a fixed order, so that equal pods have equal shapes. Raises FieldError."""
    tolerations = {
        taints.toleration_from_dict(entry, f"{POD}.tolerations[{index}]")
        for index, entry in enumerate(raw.items(pod, "tolerations"))
    }
    return tuple(sorted(tolerations))


def one_per_node(template: Obj) -> bool:
    """Whether two copies can never share a node: a host port, or a required anti-affinity to their
    own labels by host name.
    """
    pod = raw.mapping(template, "spec")
    containers = [*raw.objects(pod, "containers"), *_native_sidecars(pod)]
    on_host = raw.flag(pod, "hostNetwork")
    for container in containers:
        for port in raw.objects(container, "ports"):
            if raw.integer(port, "hostPort") or (on_host and raw.integer(port, "containerPort")):
                return True
    labels = raw.text_map(template, "metadata", "labels")
    rules = raw.objects(
        pod, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return any(_keeps_off(rule, labels, index) for index, rule in enumerate(rules))


def _keeps_off(rule: Obj, labels: Mapping[str, str], index: int) -> bool:
    if raw.text(rule, "topologyKey") != HOSTNAME or raw.items(rule, "namespaces"):
        return False
    required = f"{POD}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    path = f"{required}[{index}].labelSelector"
    selector = selectors.from_dict(rule.get("labelSelector"), path)
    return selector.matches(labels)


def _native_sidecars(pod: Obj) -> list[Obj]:
    return [
        c for c in raw.objects(pod, "initContainers") if raw.text(c, "restartPolicy") == "Always"
    ]

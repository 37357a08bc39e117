"""What a pod template refers to by name, so that a missing one is reported without a look at
pod events.

Pure. Secrets are left out: a member process may not read them; the kubelet's word on a missing one
reaches the slice as the pods' reason.
"""

from collections.abc import Iterator
from typing import Final

from federator.api import raw
from federator.api.raw import Obj

BUILT_IN_CLASSES: Final = ("system-cluster-critical", "system-node-critical")

Reference = tuple[str, str]
"""(kind, name); in the pod's namespace, or cluster-scoped."""


def of_template(template: Obj) -> tuple[Reference, ...]:
    """Every object that pods of this template cannot do without, sorted, each once."""
    spec = raw.mapping(template, "spec")
    references = {*_of_volumes(spec), *_of_containers(spec)}
    priority = raw.text(spec, "priorityClassName")
    if priority and priority not in BUILT_IN_CLASSES:
        references.add(("PriorityClass", priority))
    return tuple(sorted(references))


def _of_volumes(spec: Obj) -> Iterator[Reference]:
    for volume in raw.objects(spec, "volumes"):
        sources = [volume, *raw.objects(volume, "projected", "sources")]
        for source in sources:
            named = raw.mapping(source, "configMap")
            if named and not raw.flag(named, "optional") and raw.text(named, "name"):
                yield "ConfigMap", raw.text(named, "name")
        claim = raw.text(volume, "persistentVolumeClaim", "claimName")
        if claim:
            yield "PersistentVolumeClaim", claim


def _of_containers(spec: Obj) -> Iterator[Reference]:
    for container in [*raw.objects(spec, "initContainers"), *raw.objects(spec, "containers")]:
        named = [
            raw.mapping(source, "configMapRef") for source in raw.objects(container, "envFrom")
        ]
        named += [
            raw.mapping(entry, "valueFrom", "configMapKeyRef")
            for entry in raw.objects(container, "env")
        ]
        for reference in named:
            if raw.text(reference, "name") and not raw.flag(reference, "optional"):
                yield "ConfigMap", raw.text(reference, "name")

"""What each shard has of its own: data on a claim that outlives its pods, and files that are
rendered for it.

The pods of an Indexed Job are made from one template, in which only variables tell them apart. So
all shards of a cluster share one claim, each in a directory of its own, and each mounts its own
keys of a ConfigMap of its Job.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives, verbs
from federator.kinds.shared import parts
from federator.model.errors import FieldError
from federator.model.shards import Range, Ranges

FILES: Final = "shardConfig"
FILES_PATH: Final = "/etc/pinterest/shard"
FILES_VOLUME: Final = "pinterest-shard-config"
FILES_MAX: Final = 512 * 1024
"""Bytes of all files that are rendered for one slice."""
DIRECTORY: Final = "$(SHARD_BASE)-$(JOB_COMPLETION_INDEX)"
"""Of a shard, on a shared claim."""
SHARED_ACCESS: Final = "ReadWriteMany"


def outlives_pods(claim: Obj) -> bool:
    """Whether what is on a claim is there still when the shard is tried again."""
    return raw.text(claim, "lifetime") == "Shard"


def refusal(obj: Obj) -> FieldError | None:
    """Why claims cannot be kept as they are written."""
    for at, claim in enumerate(raw.objects(obj, "spec", "volumeClaimTemplates")):
        path = f"spec.volumeClaimTemplates[{at}]"
        modes = raw.texts(claim, "spec", "accessModes")
        if outlives_pods(claim) and SHARED_ACCESS not in modes:
            return FieldError(f"{path}.spec.accessModes", NEEDS_SHARED)
        if not outlives_pods(claim) and "retention" in claim:
            return FieldError(f"{path}.retention", GOES_WITH_POD)
    return None


NEEDS_SHARED: Final = (
    "a claim with lifetime Shard is shared by the shards of a cluster, each in its own directory, "
    f"so it needs {SHARED_ACCESS}: an Indexed Job cannot name a claim for each shard"
)
GOES_WITH_POD: Final = (
    "a claim with lifetime Pod goes with its pod; retention is for lifetime Shard"
)


def claims(obj: Obj, mark: verbs.SliceMark | None, component: str) -> list[dict[str, Any]]:
    """The claims of one cluster. Those that are retained have no owner: they stay, and the next job
    set of this name finds them.
    """
    made = []
    for claim in raw.objects(obj, "spec", "volumeClaimTemplates"):
        if not outlives_pods(claim):
            continue
        meta = parts.metadata(obj, mark, _claim_name(obj, claim), component)
        meta["labels"] = {**raw.text_map(claim, "metadata", "labels"), **meta["labels"]}
        if annotations := raw.text_map(claim, "metadata", "annotations"):
            meta["annotations"] = annotations
        if raw.text(claim, "retention") == "Retain":
            del meta["ownerReferences"]
        spec = dict(raw.mapping(claim, "spec"))
        made.append(natives.made("PersistentVolumeClaim", meta, spec))
    return made


def _claim_name(obj: Obj, claim: Obj) -> str:
    return f"{parts.name_of(obj)}-{raw.text(claim, 'metadata', 'name')}"


def volumes(obj: Obj) -> list[dict[str, Any]]:
    """The volumes of all claim templates."""
    return [
        {
            "name": raw.text(claim, "metadata", "name"),
            "persistentVolumeClaim": {"claimName": _claim_name(obj, claim)},
        }
        if outlives_pods(claim)
        else _of_pod(claim)
        for claim in raw.objects(obj, "spec", "volumeClaimTemplates")
    ]


def _of_pod(claim: Obj) -> dict[str, Any]:
    """A volume of the pod's own: the claim is made with the pod, named after it, and goes
    with it.
    """
    meta = raw.present(
        {
            "labels": raw.text_map(claim, "metadata", "labels"),
            "annotations": raw.text_map(claim, "metadata", "annotations"),
        }
    )
    template = {**({"metadata": meta} if meta else {}), "spec": dict(raw.mapping(claim, "spec"))}
    return {
        "name": raw.text(claim, "metadata", "name"),
        "ephemeral": {"volumeClaimTemplate": template},
    }


def with_own_paths(obj: Obj, container: Obj) -> dict[str, Any]:
    """One of the workload's own containers: in shared claims it sees the directory of its shard,
    and its shard's files are mounted.
    """
    shared = {
        raw.text(claim, "metadata", "name")
        for claim in raw.objects(obj, "spec", "volumeClaimTemplates")
        if outlives_pods(claim)
    }
    out = dict(container)
    if mounts := raw.objects(container, "volumeMounts"):
        out["volumeMounts"] = [
            _in_directory(mount) if mount.get("name") in shared else dict(mount) for mount in mounts
        ]
    for file in sorted(raw.text_map(obj, "spec", FILES)):
        mount = {
            "name": FILES_VOLUME,
            "mountPath": f"{FILES_PATH}/{file}",
            "subPathExpr": f"$(JOB_COMPLETION_INDEX).{file}",
            "readOnly": True,
        }
        out = parts.mounted(out, mount)
    return out


def _in_directory(mount: Obj) -> dict[str, Any]:
    own = raw.text(mount, "subPathExpr") or raw.text(mount, "subPath").replace("$(", "$$(")
    kept = {name: value for name, value in mount.items() if name != "subPath"}
    return {**kept, "subPathExpr": f"{DIRECTORY}/{own}" if own else DIRECTORY}


def files_name(job: str) -> str:
    """Name of the ConfigMap with the files of the shards that this Job runs."""
    return f"{job}-shards"


def files_volume(obj: Obj, job: str) -> list[dict[str, Any]]:
    if not raw.text_map(obj, "spec", FILES):
        return []
    return [{"name": FILES_VOLUME, "configMap": {"name": files_name(job)}}]


def files(  # noqa: PLR0917 what one ConfigMap is made from
    obj: Obj, mark: verbs.SliceMark | None, component: str, job: str, piece: Range, count: int
) -> list[dict[str, Any]]:
    """The ConfigMap with a key `INDEX.FILE` for each file of each shard of a piece."""
    templates = raw.text_map(obj, "spec", FILES)
    if not templates:
        return []
    low, high = piece
    data = {
        f"{shard - low}.{file}": _rendered(text, shard, shard - low, count)
        for shard in range(low, high + 1)
        for file, text in templates.items()
    }
    meta = parts.metadata(obj, mark, files_name(job), component)
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}]


def _rendered(text: str, shard: int, index: int, count: int) -> str:
    """Other braces stay as they are: files are often JSON."""
    values = {"{shard}": shard, "{index}": index, "{count}": count}
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


def check_size(obj: Obj, pieces: Ranges, count: int) -> None:
    """Raises FieldError where the files of these pieces have more bytes than a slice may have,
    without rendering them.
    """
    templates = raw.text_map(obj, "spec", FILES)
    if templates and (size := _size(templates, pieces, count)) > FILES_MAX:
        shards = sum(high - low + 1 for low, high in pieces)
        message = (
            f"rendered for the {shards} shards of this cluster it has {size} bytes, and at most "
            f"{FILES_MAX} are allowed; keep it shorter, or let the shards fetch it by their number"
        )
        raise FieldError(f"spec.{FILES}", message)


def _size(templates: Mapping[str, str], pieces: Sequence[Range], count: int) -> int:
    fixed = by_shard = by_index = 0
    for file, text in templates.items():
        rest = text.replace("{shard}", "").replace("{index}", "").replace("{count}", str(count))
        fixed += len(rest.encode("utf-8", "surrogatepass")) + len(file) + 1
        by_shard += text.count("{shard}")
        by_index += text.count("{index}") + 1
    return sum(
        fixed + by_shard * len(str(shard)) + by_index * len(str(shard - low))
        for low, high in pieces
        for shard in range(low, high + 1)
    )

"""One row per kind the federation knows: names, scope, printer columns, model, and the verbs of a
workload kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from federator.api import raw
from federator.api.common import Model
from federator.kinds.recurring import RecurringVerbs
from federator.kinds.verbs import WorkloadVerbs
from federator.model.steps import ObjectRef

CATEGORY: Final = "federator"
WORKLOAD_GROUP: Final = "pinterest.com"
LONGEST_WORKLOAD_NAME: Final = 52


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column over a scalar; `wide` ones are shown with -o wide only."""

    name: str
    json_path: str
    type: str = "string"
    wide: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `model` is None for kinds without a schema of ours."""

    kind: str
    group: str
    version: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    model: type[Model] | None = None
    columns: tuple[Column, ...] = ()
    has_status: bool = True
    scale: bool = False
    verbs: WorkloadVerbs | None = None
    recurring: RecurringVerbs | None = None
    """Of a kind that makes workloads again and again."""
    longest_name: int = 0
    """Names are DNS-1035 labels of at most so many characters; 0 where they may be any subdomain.
    """
    in_members: bool = False
    """Whether members need its CRD."""
    categories: tuple[str, ...] = (CATEGORY,)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`Deployment.apps`, as discovery facts name it."""
        return f"{self.kind}.{self.group}"

    def ref(self, namespace: str, name: str) -> ObjectRef:
        return ObjectRef(
            self.api_version, self.plural, namespace if self.namespaced else "", name, self.kind
        )

    def ref_of(self, obj: Mapping[str, Any]) -> ObjectRef:
        return self.ref(raw.text(obj, "metadata", "namespace"), raw.text(obj, "metadata", "name"))


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
STATUS: Final = Column("Status", ".status.summary", description="One line on how it stands.")
WIDE: Final = (
    Column("Policy", ".status.policy", wide=True, description="The placement policy in force."),
    Column("Message", ".status.message", wide=True, description="Why it is not ready."),
)


def workload(
    plural: str,
    short: str,
    model: type[Model],
    verbs: WorkloadVerbs,
    columns: tuple[Column, ...],
    *,
    scale: bool = False,
    longest_name: int = LONGEST_WORKLOAD_NAME,
) -> Kind:
    """The row of a workload kind with a schema of ours; the columns of all of them follow its own.
    `scale`: it has a scale subresource over spec.replicas.
    """
    return replace(
        _of_tenants(plural, short, model, (*columns, STATUS, AGE, *WIDE), longest_name),
        scale=scale,
        verbs=verbs,
        in_members=True,
    )


def recurring(
    plural: str,
    short: str,
    model: type[Model],
    verbs: RecurringVerbs,
    columns: tuple[Column, ...],
    *,
    longest_name: int,
) -> Kind:
    """The row of a kind that makes workloads on the host; members know nothing of it."""
    return replace(_of_tenants(plural, short, model, columns, longest_name), recurring=verbs)


def _of_tenants(
    plural: str, short: str, model: type[Model], columns: tuple[Column, ...], longest_name: int
) -> Kind:
    """What all kinds that tenants write have in common."""
    name = model.__name__
    return Kind(
        name,
        WORKLOAD_GROUP,
        "v1beta1",
        plural,
        name.lower(),
        (short,),
        namespaced=True,
        model=model,
        columns=columns,
        categories=(CATEGORY, "all"),
        longest_name=longest_name,
    )

"""What an account's projects may name in their pods, and open to the outside: fields of a
FederatedQuota."""

from typing import Annotated, Any, Literal

from pydantic import Field

from federator.api import raw
from federator.api.common import LIST_SET, Model
from federator.api.raw import Obj

Patterns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[-+=,.@_/*a-zA-Z0-9]+$")]],
    Field(max_length=256, json_schema_extra=LIST_SET),
]
"""Names, in which `*` stands for any text."""
HostPatterns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-.*a-z0-9]+$")]],
    Field(max_length=256, json_schema_extra=LIST_SET),
]
KeyPatterns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=317, pattern=r"^[-._/*a-zA-Z0-9]+$")]],
    Field(max_length=256, json_schema_extra=LIST_SET),
]
ServiceTypes = Annotated[
    list[Literal["NodePort", "LoadBalancer"]], Field(max_length=2, json_schema_extra=LIST_SET)
]


class DoorFields(Model):
    """Lists of what projects may name and open."""

    service_accounts: Patterns = Field(default_factory=list)
    """Service accounts that pods of these projects may name, beside `default` and one of the
    workload's own name; `*` stands for any text. No others when empty."""
    iam_roles: Patterns = Field(default_factory=list)
    """IAM roles that workloads of these projects may have, `*` standing for any text. None when
    empty."""
    priority_classes: Patterns = Field(default_factory=list)
    """Priority classes that pods of these projects may name, beside that of their tier; `*` stands
    for any text. No others when empty."""
    hosts: HostPatterns | None = None
    """Host names that workloads of these projects may have in `loadBalancers`, `*` standing for any
    text; a door without a host counts as `*`. Any when left out. In any case a name belongs to the
    namespace that has it first."""
    service_annotations: KeyPatterns | None = None
    """Keys of annotations that Services of these projects may have, `*` standing for any text. Any
    when left out."""
    service_types: ServiceTypes | None = None
    """Types of Services, beside ClusterIP, that these projects may have. Any when left out."""


def lists(spec: Obj) -> dict[str, Any]:
    """The lists of an account of what its projects may use, by field of a QuotaAccount."""
    always = {"serviceAccounts": "service_accounts", "iamRoles": "iam_roles"}
    always["priorityClasses"] = "priority_classes"
    limits = {"hosts": "hosts", "serviceAnnotations": "service_annotations"}
    limits["serviceTypes"] = "service_types"
    return {name: raw.texts(spec, field) for field, name in always.items()} | {
        name: raw.texts(spec, field) if isinstance(spec.get(field), list) else None
        for field, name in limits.items()
    }

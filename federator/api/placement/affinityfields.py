"""`spec.workloadAffinity` of placement policies: schema, checks and conversion to the core's terms.

What a model refuses is refused with the field's path. Conversion is total, because it reads what an
API server holds: a term that cannot be used becomes the policy's `problem`, and then nothing new is
placed and nothing moves.
"""

from typing import Annotated, Any, Final, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.clusterchoice import Selector
from federator.api.common import ATOMIC, LIST_SET, LabelKey, Model, many, rules
from federator.api.raw import Obj
from federator.model import errors
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.model.neighbours import WorkloadTerm
from federator.model.terms import WORKLOADS, Preference

NAME: Final = "workloadAffinity"
WEIGHT_MAX: Final = 1000
SELECTS_RULE = (
    "has(self.selector) || (has(self.matchLabelKeys) && size(self.matchLabelKeys) > 0)",
    "a term has selector, matchLabelKeys or both",
)


class WorkloadTermFields(Model):
    """One term about other workloads of the namespace: those that it selects by label."""

    model_config = ConfigDict(json_schema_extra=rules(SELECTS_RULE))

    selector: Selector | None = None
    """Other workloads by label."""
    match_label_keys: list[LabelKey] = many(8, LIST_SET)
    """Only workloads with the same values of these labels as the workload that is placed. For a
    workload without one of them the term does not hold."""
    topology_key: LabelKey | None = None
    """Clusters with the same value of this label, or the same domain in spec.topology, count as one
    place; each cluster by itself when left out."""
    weight: (
        Annotated[int, Field(ge=1, le=WEIGHT_MAX, json_schema_extra={"format": "int32"})] | None
    ) = None
    """With a weight the term is a preference, with this part of the score beside those of
    clusters.preferences. Without it the term is required: other clusters take no new copies."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        try:
            _term(self.model_dump(by_alias=True, exclude_none=True), "", away=False)
        except FieldError as error:
            raise PydanticCustomError("workloads", "{problem}", {"problem": str(error)}) from None
        return self


Terms = Annotated[list[WorkloadTermFields], Field(max_length=8, json_schema_extra=ATOMIC)]


class WorkloadAffinityFields(Model):
    """Near which other workloads of the namespace copies go, and from which they stay away. Copies
    that run stay where they are."""

    affinity: Terms = Field(default_factory=list)
    """Copies go where selected workloads have copies. A workload that a term selects itself goes
    anywhere while no other one has copies."""
    anti_affinity: Terms = Field(default_factory=list)
    """Copies go where no selected workload has copies. While the workload has copies, a required
    term keeps the selected workloads away from it too, whatever their policies say."""


def terms_of(spec: Obj) -> tuple[tuple[WorkloadTerm, ...], str]:
    """The terms in their order, and why one cannot be used: a sentence that begins with the field
    below the policy's spec, "" when all can."""
    given = raw.mapping(spec, NAME)
    terms, problem = list[WorkloadTerm](), ""
    for field, away in (("affinity", False), ("antiAffinity", True)):
        for at, entry in enumerate(raw.objects(given, field)):
            try:
                terms.append(_term(entry, f"{NAME}.{field}[{at}]", away=away))
            except FieldError as bad:
                problem = problem or str(bad)
    return tuple(terms), problem


def _term(entry: Obj, path: str, *, away: bool) -> WorkloadTerm:
    selector = None
    if (written := entry.get("selector")) is not None:
        selector = selectors.from_dict(written, errors.join(path, "selector"))
    same = raw.texts(entry, "matchLabelKeys")
    if selector is None and not same:
        raise FieldError(path, SELECTS_RULE[1])
    weight = raw.integer(entry, "weight")
    if "weight" in entry and not 1 <= weight <= WEIGHT_MAX:
        raise FieldError(
            errors.join(path, "weight"), f"a weight is a whole number from 1 to {WEIGHT_MAX}"
        )
    return WorkloadTerm(path, selector, same, raw.text(entry, "topologyKey"), away, weight)


def to_fields(spec: Obj, fields: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a `Policy` with these terms; preferred ones are preferences too."""
    terms, problem = terms_of(spec)
    wishes = tuple(
        Preference(term.weight, WORKLOADS, term.path, name=term.path.removeprefix(f"{NAME}."))
        for term in terms
        if term.weight
    )
    return {
        **fields,
        "workloads": terms,
        "preferences": (*fields["preferences"], *wishes),
        "problem": fields["problem"] or problem,
    }

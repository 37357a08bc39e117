"""Which clusters a policy uses: the fields under `clusters`, as policies and workloads (inline)
spell them, and their conversion to the core's values.

What a model refuses is refused with the field's path. Conversion is total, because it reads what an
API server holds: an entry that cannot be used becomes the policy's `problem`, and then nothing new
is placed and nothing moves.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.common import (
    ATOMIC,
    LIST_SET,
    ClusterName,
    LabelKey,
    Labels,
    LabelValue,
    Model,
    many,
    rules,
)
from federator.api.raw import Obj
from federator.model import errors, properties
from federator.model.cel import checking, evaluating
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.model.kubernetes.selectors import LabelSelector
from federator.model.properties import Kind
from federator.model.terms import (
    PROPERTY,
    SELECTOR,
    Alternative,
    Conditions,
    Operator,
    Preference,
    Term,
)

VALUES = "values are needed for In and NotIn, and refused for Exists and DoesNotExist"


class Expression(Model):
    """One requirement on labels."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.values) && size(self.values) > 0 ? self.operator in ['In', 'NotIn']"
                " : self.operator in ['Exists', 'DoesNotExist']",
                VALUES,
            )
        )
    )

    key: LabelKey
    """The label's key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the values are compared."""
    values: list[LabelValue] = many(64)
    """Values for In and NotIn; empty for the others."""

    @model_validator(mode="after")
    def _values_fit(self) -> "Expression":
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            raise PydanticCustomError("values", VALUES)
        return self


class Selector(Model):
    """Selects by labels; all requirements must hold."""

    match_labels: Labels = Field(default_factory=dict)
    """Labels with exactly these values."""
    match_expressions: list[Expression] = many(16)
    """Requirements beyond equality."""


TERM_RULES = (
    (
        "has(self.cel) ? !has(self.key) && !has(self.operator) && !has(self.value)"
        " && !has(self.values) : has(self.key) && has(self.operator)",
        "a term has key and operator, or cel alone",
    ),
    (
        "!has(self.operator) || (self.operator in ['Exists', 'DoesNotExist']"
        " ? !has(self.value) && !has(self.values)"
        " : self.operator in ['Gt', 'Lt'] ? has(self.value) && !has(self.values)"
        " : has(self.value) != has(self.values))",
        "Gt and Lt take value; In and NotIn take value or values; Exists and DoesNotExist take"
        " neither",
    ),
)
PropertyName = Annotated[str, Field(min_length=1, max_length=330)]
PropertyValue = Annotated[str, Field(min_length=1, max_length=256)]


class PropertyTerm(Model):
    """One required term: a property compared with values, or a CEL expression."""

    model_config = ConfigDict(json_schema_extra=rules(*TERM_RULES))

    key: PropertyName | None = None
    """The property, such as version, price, gpu.free, labels.KEY or properties.KEY."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] | None = None
    """How it is compared. Gt and Lt compare numbers and quantities, and versions as semantic
    versions. A cluster without the property passes NotIn and DoesNotExist only."""
    value: PropertyValue | None = None
    """The value for Gt and Lt, and the only one for In and NotIn."""
    values: (
        Annotated[list[PropertyValue], Field(min_length=1, max_length=64, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """Values for In and NotIn."""
    cel: Annotated[str, Field(min_length=1, max_length=checking.LONGEST)] | None = None
    """An expression that must be true, over the variable cluster, such as
    cluster.version >= semver('1.36') && cluster.price < 4.0."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        return _checked(self, term_of)


class AlternativeFields(Model):
    """One alternative: all of its fields must admit the cluster. What is left out does not
    restrict."""

    names: list[ClusterName] = many(1000, LIST_SET)
    """Only these clusters; empty for all."""
    exclude: list[ClusterName] = many(1000, LIST_SET)
    """Never these clusters."""
    selector: Selector | None = None
    """Only clusters with these labels."""
    properties: list[PropertyTerm] = many(16)
    """Required terms over properties of the cluster."""


ONE_OF = "a preference has one of property, selector and scorer"


class PreferenceFields(Model):
    """One preference: it decides which clusters take part, where fewer are used than may be."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(has(self.property) ? 1 : 0) + (has(self.selector) ? 1 : 0)"
                " + (has(self.scorer) ? 1 : 0) == 1",
                ONE_OF,
            ),
            (
                "has(self.property) == has(self.order)",
                "order is needed for property, and only there",
            ),
        )
    )

    weight: Annotated[int, Field(ge=1, le=1000, json_schema_extra={"format": "int32"})]
    """Its part of the score, relative to the other weights."""
    property: PropertyName | None = None
    """A property to sort by, in proportion between the worst and the best cluster."""
    order: Literal["Ascending", "Descending"] | None = None
    """Ascending: the lowest value is the best. Descending: the highest."""
    selector: Selector | None = None
    """Clusters with these labels are preferred."""
    scorer: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """A scorer by name: FreeCapacity, Fit, Balance, Success, Price, Fragmentation or SpareGPUs."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        return _checked(self, preference_of)


class ClusterChoice(AlternativeFields):
    """Which clusters may be used. What is left out does not restrict."""

    any_of: list[AlternativeFields] = many(8)
    """Beside the fields above, at least one of these must admit the cluster."""
    preferences: list[PreferenceFields] = many(16)
    """Which clusters are better than others, with weights. They decide where fewer clusters are
    used than may be: maxClusters, minPerCluster, strategy Pack, and gangs."""


_Fields = TypeVar("_Fields", bound=Model)


def _checked(given: _Fields, convert: Callable[[Obj, str], object]) -> _Fields:
    try:
        convert(given.model_dump(by_alias=True, exclude_none=True), "")
    except FieldError as error:
        raise PydanticCustomError("clusters", "{problem}", {"problem": str(error)}) from None
    return given


def selector_of(value: object) -> LabelSelector | None:
    """None where there is no selector; one that is not valid selects nothing, never everything."""
    if not isinstance(value, dict):
        return None
    try:
        return selectors.from_dict(value)
    except FieldError:
        return selectors.NOTHING


_VALUED: Final = (Operator.IN, Operator.NOT_IN)
_BOUNDED: Final = (Operator.GREATER_THAN, Operator.LESS_THAN)


def term_of(entry: Obj, path: str) -> Term:
    """A required term. Raises FieldError below `path`."""
    source, key = raw.text(entry, "cel"), raw.text(entry, "key")
    if source:
        if key or raw.text(entry, "operator"):
            raise FieldError(path, TERM_RULES[0][1])
        return _expression(source, path)
    operator = raw.text(entry, "operator")
    if not key or operator not in set(Operator):
        raise FieldError(path, TERM_RULES[0][1])
    row = properties.find(key)
    if row is None:
        raise FieldError(errors.join(path, "key"), _unknown(key))
    given = Operator(operator)
    values = raw.texts(entry, "values") or ((raw.text(entry, "value"),) if "value" in entry else ())
    if (given in _BOUNDED and len(values) != 1) or bool(values) != (given in _VALUED + _BOUNDED):
        raise FieldError(path, TERM_RULES[1][1])
    for value in values:
        _comparable(row, given, value, errors.join(path, "value"))
    return Term(path, key, given, values, reported=row.reported)


def _comparable(row: properties.Property, operator: Operator, value: str, path: str) -> None:
    number = row.kind is Kind.NUMBER or (row.kind is Kind.TEXT and operator in _BOUNDED)
    if number and properties.number(value) is None:
        raise FieldError(path, f"{value!r} is not a quantity such as 500m, 2 or 4Gi")
    if row.kind is Kind.VERSION and properties.version(value) is None:
        raise FieldError(path, f"{value!r} is not a version such as 1.36.0")


def _unknown(key: str) -> str:
    return f"{key!r} is no property of clusters; there are {', '.join(properties.names())}"


def _expression(source: str, path: str) -> Term:
    try:
        made = evaluating.checked(source)
    except checking.InvalidExpression as why:
        raise FieldError(errors.join(path, "cel"), str(why)) from None
    return Term(path, cel=source, reported=evaluating.reported(made))


_SHOWN: Final = 60
"""Characters of a preference that name its points in records."""


def preference_of(entry: Obj, path: str) -> Preference:
    """A preference. Raises FieldError below `path`."""
    weight, order = raw.integer(entry, "weight"), raw.text(entry, "order")
    key, scorer = raw.text(entry, "property"), raw.text(entry, "scorer")
    selector = selector_of(entry.get("selector"))
    if bool(key) + bool(scorer) + (selector is not None) != 1:
        raise FieldError(path, ONE_OF)
    if weight < 1:
        raise FieldError(errors.join(path, "weight"), "a weight is a whole number from 1 on")
    if selector is not None:
        name = selectors.to_text(selector)[:_SHOWN]
        return Preference(weight, SELECTOR, selector=selector, name=name)
    if scorer:
        if scorer not in SCORERS_BY_NAME:
            known = ", ".join(SCORERS_BY_NAME)
            raise FieldError(
                errors.join(path, "scorer"), f"{scorer!r} is no scorer; there are {known}"
            )
        return Preference(weight, scorer, name=scorer, reported=SCORERS_BY_NAME[scorer])
    row = properties.find(key)
    if row is None:
        raise FieldError(errors.join(path, "property"), _unknown(key))
    if row.kind is Kind.VERSION or key == "name":
        raise FieldError(errors.join(path, "property"), f"{key} is no number to sort by")
    if order not in ("Ascending", "Descending"):
        raise FieldError(errors.join(path, "order"), "one of Ascending and Descending")
    name = f"{key} {order}" if len(key) < _SHOWN else key[:_SHOWN]
    descending = order == "Descending"
    return Preference(weight, PROPERTY, key, descending, name=name, reported=row.reported)


SCORERS_BY_NAME: Final = {
    "FreeCapacity": False,
    "Fit": False,
    "Balance": True,
    "Success": True,
    "Price": False,
    "Fragmentation": True,
    "SpareGPUs": True,
}
"""Scorer that a preference may name -> whether it reads capacity reports. A test compares them with
the table of scorers."""

_Made = TypeVar("_Made")


def conditions_of(clusters: Obj) -> tuple[Conditions, tuple[Preference, ...], str]:
    """Conditions, preferences, and why one of them cannot be used: a sentence that begins with the
    field below the policy's spec, "" when all can."""
    problems: list[FieldError] = []

    def each(
        entries: Obj, field: str, path: str, convert: Callable[[Obj, str], _Made]
    ) -> Iterator[_Made]:
        for at, entry in enumerate(raw.objects(entries, field)):
            try:
                yield convert(entry, f"{path}.{field}[{at}]")
            except FieldError as bad:
                problems.append(bad)

    def alternative(entry: Obj, path: str) -> Alternative:
        return Alternative(
            path,
            raw.texts(entry, "names"),
            raw.texts(entry, "exclude"),
            selector_of(entry.get("selector")),
            tuple(each(entry, "properties", path, term_of)),
        )

    made = Conditions(
        tuple(each(clusters, "properties", "clusters", term_of)),
        tuple(each(clusters, "anyOf", "clusters", alternative)),
    )
    preferences = tuple(each(clusters, "preferences", "clusters", preference_of))
    return made, preferences, str(problems[0]) if problems else ""

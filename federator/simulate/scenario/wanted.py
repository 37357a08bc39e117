"""The measures of a scenario: which figure each is about, and its bounds as numbers.

Names are checked before anything runs: a figure or a project that is not there is an error with the
field's path.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from federator.model.errors import FieldError
from federator.simulate.demand import Work
from federator.simulate.inputs import Event
from federator.simulate.outcome import FIGURE_KEYS, GROWTH_KEYS, WAITING_KEYS, Measure
from federator.simulate.scenario import fields, schema
from federator.simulate.scenario.fields import near
from federator.simulate.scenario.fleet import Clusters

COST: Final = "cost"


def measures(
    given: Mapping[str, schema.MeasureFields],
    clusters: Clusters,
    events: Sequence[Event],
    works: Sequence[Work],
) -> tuple[Measure, ...]:
    """The measures in their order. Raises FieldError."""
    projects = {work.project for work in works}
    added = (event.view for event in events if event.view is not None)
    grows = any(view.scale_up for view in (*clusters.views.values(), *added))
    lacking = {} if grows else dict.fromkeys(GROWTH_KEYS, "no cluster grows: none has scaleUp")
    if not clusters.priced:
        costs = (key for key in FIGURE_KEYS if key.startswith(COST))
        lacking |= dict.fromkeys(costs, "nothing costs anything: the fleet has no prices")
    return tuple(_measure(name, measure, lacking, projects) for name, measure in given.items())


def _measure(
    name: str, given: schema.MeasureFields, lacking: Mapping[str, str], projects: set[str]
) -> Measure:
    """`lacking`: figure -> why it is not there."""
    path = f"measures.{name}"
    figure = given.figure or name
    here = f"{path}.figure" if given.figure else path
    if figure not in FIGURE_KEYS:
        raise FieldError(here, f"there is no figure {figure!r}{near(figure, FIGURE_KEYS)}")
    if figure in lacking:
        raise FieldError(here, lacking[figure])
    grouped = given.project or given.tier
    if grouped and figure not in WAITING_KEYS:
        raise FieldError(
            path,
            f"{figure} is of the whole fleet; by project or tier are {', '.join(WAITING_KEYS)}",
        )
    if given.project and given.tier:
        raise FieldError(path, "is by project or by tier, and not by both")
    if given.project and given.project not in projects:
        raise FieldError(
            f"{path}.project",
            f"no work is of {given.project!r}{near(given.project, sorted(projects))}",
        )
    most, least = (
        _bound(figure, value, f"{path}.{end}")
        for end, value in (("most", given.most), ("least", given.least))
    )
    if most is not None and least is not None and least > most:
        raise FieldError(f"{path}.least", "is more than most")
    return Measure(name, figure, given.project, given.tier or "", most, least)


def _bound(figure: str, value: str | float | None, path: str) -> float | None:
    """A bound in the unit of the figure: seconds, shares from 0 to 1, or a count."""
    if value is None:
        return None
    try:
        if figure.endswith("_s") and not figure.endswith("copy_s"):
            return float(fields.seconds(value))
        bound = float(fields.fraction(value))
    except ValueError as bad:
        raise FieldError(path, str(bad)) from None
    if not math.isfinite(bound):
        raise FieldError(path, "is not finite")
    return bound

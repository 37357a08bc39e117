"""The fields of a scenario file that name a table: the file, its columns, units and separators."""

from typing import Literal

from pydantic import Field

from federator.api.common import Model
from federator.model.ask import Tier
from federator.simulate.scenario.fields import Duration, Portion
from federator.simulate.traces import columns, works
from federator.simulate.traces.dialect import Dialect

TierName = Literal["Reserved", "OnDemand", "Preemptible"]
TimeUnit = Literal["us", "ms", "s", "min", "h", "d", "iso"]


class Csv(Model):
    """How the text of a table is divided. What is left out is found out from the file."""

    separator: Literal[",", ";", "|", "\t"] | None = None
    decimal: Literal[".", ","] | None = None
    """Between whole and part of a number; the other one may then group thousands."""
    quote: Literal['"', "'"] | None = None

    def dialect(self) -> Dialect:
        return Dialect(self.separator or "", self.decimal or "", self.quote or "")


class Units(Model):
    """Units of a table's columns."""

    time: TimeUnit = "s"
    submit: TimeUnit | None = None
    """Where it is another than `time`."""
    runtime: Literal["us", "ms", "s", "min", "h", "d"] | None = None
    end: TimeUnit | None = None
    """Of start and end."""
    cpu: Literal["milli", "cores"] | None = None
    memory: Literal["B", "KiB", "MiB", "GiB", "MB", "GB"] = "MiB"
    gpu: Literal["gpus", "milli"] = "gpus"

    def by_name(self) -> dict[str, str]:
        return {name: unit for name, unit in self.model_dump().items() if unit is not None}


class FleetTable(Model):
    """A table of nodes or clusters, a scenario folder, an SWF trace, or a file of
    MemberClusters.
    """

    path: str
    columns: dict[
        Literal["node", "cluster", "nodes", "cpu", "memory", "gpu", "gpuModel", "region", "zone"],
        str,
    ] = Field(default_factory=dict)
    units: Units = Units()
    csv: Csv = Csv()
    bad_rows: Portion = works.TOLERATED
    """The share of bad rows that is tolerated."""


class Tiers(Model):
    """The tier of each work by the value of a column."""

    column: str = ""
    of: dict[str, TierName] = Field(default_factory=dict)
    otherwise: TierName = "OnDemand"

    def reading(self) -> works.TierBy:
        return works.TierBy(
            self.column,
            {value: Tier(tier) for value, tier in self.of.items()},
            Tier(self.otherwise),
        )


class TraceFile(Model):
    """Demand from a file."""

    path: str
    format: Literal["folder", "table", "swf", "sacct", "openb"] | None = None
    """Found out where it is not said."""
    columns: dict[
        Literal[
            "id",
            "kind",
            "tenant",
            "home",
            "submit",
            "runtime",
            "start",
            "end",
            "shards",
            "cpu",
            "memory",
            "gpu",
            "gpuModels",
            "priority",
            "tier",
            "checkpoint",
            "failures",
            "failsAfter",
            "backoffLimit",
            "exit",
        ],
        str,
    ] = Field(default_factory=dict)
    """Field -> column of the table."""
    units: Units = Units()
    csv: Csv = Csv()
    bad_rows: Portion = works.TOLERATED
    """The share of bad rows that is tolerated; more is an error."""
    tiers: Tiers = Tiers()
    begin: Duration = 0
    """Works that were submitted before are left out; this instant becomes second 0."""
    end: Duration | None = None
    """Works that were submitted from then on are left out."""

    def reading(self, checkpoint_s: int | None) -> works.Reading:
        names = columns.Columns(
            {str(name): column for name, column in self.columns.items()}, self.units.by_name()
        )
        return works.Reading(
            names, self.bad_rows, self.tiers.reading(), checkpoint_s, self.csv.dialect()
        )

"""What operators state of a MemberCluster beside its state: how it is reached, its properties, its
price and the domains that it lies in. Fields and conversion."""

from typing import Annotated, Final, Literal

from pydantic import Field

from federator.api import raw
from federator.api.common import (
    LIST_SET,
    LabelKey,
    LabelValue,
    Model,
    Moment,
    ObjectName,
    Sentence,
    ShortText,
    TierName,
    list_map,
    many,
    named,
)
from federator.api.raw import Obj
from federator.model import properties
from federator.model.kubernetes import selectors
from federator.model.terms import NOTHING_STATED, Stated

DOMAINS_MAX: Final = 16
"""Domains of one topology key that a cluster may lie in."""


class SecretRef(Model):
    """Names a Secret of the credentials namespace."""

    name: ObjectName
    """Name of the Secret; its key kubeconfig holds the access."""


class Credentials(Model):
    """How the cluster is reached."""

    secret_ref: SecretRef
    """Secret with a kubeconfig."""


class StatedFields(Model):
    """What operators state of the cluster, and policies read."""

    properties: dict[LabelKey, Annotated[str, Field(max_length=256)]] = named(64)
    """Facts that policies ask for as properties.KEY: texts, numbers or quantities. Keys are spelt
    as label keys."""
    price_per_hour: (
        Annotated[str, Field(max_length=32, pattern=r"^[0-9]{1,12}(\.[0-9]{1,9})?$")] | None
    ) = None
    """Price of an hour there, a decimal number in any unit that is the same for all clusters, such
    as dollars per node. Policies ask for it as price."""
    topology: dict[
        LabelKey,
        Annotated[
            list[Annotated[LabelValue, Field(min_length=1)]],
            Field(min_length=1, max_length=DOMAINS_MAX, json_schema_extra=LIST_SET),
        ],
    ] = named(8)
    """The domains that the cluster lies in, by topologyKey: zone with several zones. A copy in it
    counts in each of them, and the cluster is lost with the last of them. A key that is not here
    has the value of the label."""


class SuccessFields(Model):
    """How well copies start and jobs end in the cluster."""

    percent: Annotated[int, Field(ge=0, le=100)]
    """The share of workloads that start and end well there, over about an hour."""
    avoided: bool = False
    """New copies go to other clusters first, because the share fell below 50 percent and has not
    reached 80 percent since."""


ProbeResult = Literal["Passed", "Failed", "Busy", "NotRun"]
PROBE_PASSED: Final = "ProbePassed"
"""Condition of a cluster that was probed, or takes no work until it was."""


class TierProbe(Model):
    """What came of the probe in one tier."""

    tier: TierName
    """The tier."""
    result: ProbeResult
    """Passed; Failed; Busy: the cluster has no room for it now; NotRun: something outside of the
    cluster prevented it."""
    stage: ShortText = ""
    """The stage that was not passed: Placed, Ready, Reached, Rolled or Removed."""
    message: Sentence = ""
    """Why, as a sentence."""


class ProbeStatus(Model):
    """The last probe of the cluster with workloads."""

    result: ProbeResult | None = None
    """The worst result of its tiers; absent before the first probe has ended."""
    stage: ShortText = ""
    """The stage that was not passed."""
    message: Sentence = ""
    """Why, as a sentence."""
    request: ShortText = ""
    """The last request of `federator probe run` that was dealt with."""
    running_since: Moment | None = None
    """When the probe that runs now began; absent while none does."""
    started_at: Moment | None = None
    """When the last probe that has ended began."""
    finished_at: Moment | None = None
    """When it ended."""
    passed_at: Moment | None = None
    """When the last probe that passed began."""
    gate_since: Moment | None = None
    """Since when a ClusterStandard asks for a passed probe before the cluster takes work; absent
    when none does."""
    tiers: list[TierProbe] = many(3, list_map("tier"))
    """Each tier of the last probe that has ended."""


def unproven(obj: Obj) -> str:
    """Why a MemberCluster takes no work until it has passed a probe, as a part of a sentence; ""
    when it may. It has to pass one each time that it became Ready under a gate."""
    probe = raw.mapping(obj, "status", "probe")
    gate_since = raw.text(probe, "gateSince")
    ready = raw.condition(obj, "Ready")
    since = raw.text(ready, "lastTransitionTime")
    if not gate_since or ready.get("status") != "True" or since < gate_since:
        return ""
    if raw.text(probe, "passedAt") >= since:
        return ""
    result, ended = raw.word(probe, "result"), raw.text(probe, "finishedAt")
    if not result or ended < since:
        return "has not been probed since it became ready"
    message = raw.sentence(probe, "message").removesuffix(".")
    return f"has not passed its last probe ({result}{': ' if message else ''}{message})"


def stated_of(obj: Obj) -> Stated:
    """What is known of a MemberCluster. Total: what cannot be read is left out."""
    spec = raw.mapping(obj, "spec")
    price = raw.text(spec, "pricePerHour")
    topology = raw.mapping(spec, "topology")
    made = Stated(
        raw.text(obj, "status", "version"),
        raw.text_map(spec, "properties"),
        price if properties.number(price) is not None else "",
        raw.epoch_s(raw.text(obj, "metadata", "creationTimestamp")),
        {
            key: tuple(sorted(domains))
            for key in topology
            if (domains := {each for each in raw.texts(topology, key) if _is_domain(each)})
        },
    )
    return made if made != NOTHING_STATED else NOTHING_STATED


def success_permille(obj: Obj) -> int | None:
    """The success rate that its status records, in thousandths; None where it records none."""
    status = raw.mapping(obj, "status", "success")
    if "percent" not in status:
        return None
    return 10 * min(max(raw.integer(status, "percent"), 0), 100)


def avoided(obj: Obj) -> bool:
    """Whether its status records that new copies go to other clusters first."""
    return raw.flag(obj, "status", "success", "avoided")


def _is_domain(text: str) -> bool:
    return bool(text) and selectors.check_label_value(text) is None


def usable_permille(text: str) -> int:
    """`92.5%` as 925; everything for "", nothing for what is no percentage."""
    if not text:
        return 1000
    whole, _, tenth = text.removesuffix("%").partition(".")
    digits = whole + (tenth[:1] or "0")
    return (
        min(int(digits), 1000)
        if digits.isascii() and digits.isdigit() and text.endswith("%")
        else 0
    )


def buffer_permille(text: str) -> int:
    """`12.5%` as 125; nothing for "" and for what is no percentage."""
    return usable_permille(text) if text else 0

"""What fires now: in Prometheus, or else by what the host's objects say. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from federator.dashboard import runbooks, text
from federator.dashboard.sources.prometheus import Alert
from federator.dashboard.sources.rows import AccountRow, ClusterRow, WorkloadRow
from federator.dashboard.views import overview
from federator.hub.query.banner import NO_LEADER, PAUSED, Banner
from federator.model import plaintext

SHOWN_MAX: Final = 200
CRITICAL, WARNING = "critical", "warning"
SEVERITIES: Final = (CRITICAL, WARNING)
"""The most urgent first; all others come after them."""
TONES: Final = {CRITICAL: "bad", WARNING: "warn"}
PAGE: Final = "alerts"
"""The page of runbooks with a section for each alert."""


def seen(
    alerts: Iterable[Alert], accounts: frozenset[str] | None, *, operator: bool
) -> list[Alert]:
    """Those that a reader is shown: an alert about an account for readers of that account, all
    others for operators. `accounts`: None for all."""
    shown = []
    for alert in alerts:
        account = dict(alert.labels).get("account", "")
        allowed = (accounts is None or account in accounts) if account else operator
        if allowed:
            shown.append(alert)
    return shown


def of_prometheus(alerts: Sequence[Alert], now_s: float) -> list[dict[str, Any]]:
    """The rows, the most urgent first."""
    ordered = sorted(alerts, key=lambda each: (_rank(each), each.name, each.labels))
    return [
        {
            "name": plaintext.clipped(alert.name, 100),
            "severity": plaintext.clipped(alert.severity, 40) or "unknown",
            "tone": TONES.get(alert.severity, "idle"),
            "state": "pending" if alert.pending else "firing",
            "since": alert.since,
            "age": text.age(alert.since, now_s),
            "about": [
                {"name": plaintext.clipped(name, 60), "value": plaintext.clipped(value, 120)}
                for name, value in alert.labels[:12]
            ],
            "why": plaintext.clipped(alert.description or alert.summary, 500),
            "href": _page_of(dict(alert.labels)),
            "value": None if alert.value is None else f"{alert.value:g}",
            "runbook": _runbook(alert.name),
        }
        for alert in ordered[:SHOWN_MAX]
    ]


def _rank(alert: Alert) -> tuple[bool, int]:
    order = {severity: at for at, severity in enumerate(SEVERITIES)}
    return alert.pending, order.get(alert.severity, len(order))


def _page_of(labels: dict[str, str]) -> str:
    """The page of what the alert is about; "" for none."""
    if cluster := labels.get("cluster", "") or labels.get("member", ""):
        return text.address("clusters", cluster)
    if account := labels.get("account", ""):
        return text.address("quota", account)
    return ""


def _runbook(name: str) -> str:
    """The section of the alert; the page itself for an alert that has none."""
    section = runbooks.anchor(name)
    page = runbooks.page(PAGE)
    known = page is not None and any(
        block["kind"] == "heading" and block["anchor"] == section for block in page["blocks"]
    )
    return f"/runbooks/{PAGE}#{section}" if known else f"/runbooks/{PAGE}"


def of_host(
    workloads: Iterable[WorkloadRow],
    clusters: Sequence[ClusterRow] | None,
    accounts: Sequence[AccountRow] | None,
    banner: Banner,
) -> list[dict[str, Any]]:
    """The rows by what the host's objects say: no leader and a pause first, then what the overview
    says needs a person."""
    rows = [_of_banner(line, banner.halted) for line in banner.lines]
    for need in overview.needs(workloads, clusters, accounts):
        severity = CRITICAL if need.rank == 0 else WARNING
        rows.append(
            {
                "name": need.subject,
                "severity": severity,
                "tone": TONES[severity],
                "state": "firing",
                "since": "",
                "age": "",
                "about": [],
                "why": need.why,
                "href": need.href,
                "value": None,
                "runbook": f"/runbooks/{need.runbook}",
            }
        )
    return sorted(rows, key=lambda row: SEVERITIES.index(row["severity"]))[:SHOWN_MAX]


def _of_banner(line: str, halted: str) -> dict[str, Any]:
    severity = CRITICAL if halted == NO_LEADER else WARNING
    runbook = {NO_LEADER: f"{PAGE}#federatornoleader", PAUSED: "pause-and-brakes"}.get(
        halted, "index"
    )
    return {
        "name": "Federation",
        "severity": severity,
        "tone": TONES[severity],
        "state": "firing",
        "since": "",
        "age": "",
        "about": [],
        "why": line,
        "href": "/",
        "value": None,
        "runbook": f"/runbooks/{runbook}",
    }

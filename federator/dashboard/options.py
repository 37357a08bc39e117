"""Settings of the dashboard."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """What the dashboard may do, and whom else it asks."""

    act_as: tuple[str, ...] = ()
    """`user:NAME` and `group:NAME`: the people who may act with buttons, each with the own rights
    on the host. Empty: the dashboard is read-only."""
    alerts_url: str = ""
    """Prometheus, such as http://prometheus.monitoring:9090: the page of alerts shows what fires
    there. Empty: it shows what the host's objects say."""

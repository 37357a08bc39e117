"""Settings of the dashboard."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """What the dashboard may change, and which other programs it asks."""

    act_as: tuple[str, ...] = ()
    """`user:NAME` and `group:NAME`: the people that may act with buttons, each with the own rights
    on the host; no names that begin with `system:`. Empty: the dashboard is read-only."""
    alerts_url: str = ""
    """Prometheus, such as http://prometheus.monitoring:9090, for the page of alerts. Empty: that
    page shows what the host's objects say."""

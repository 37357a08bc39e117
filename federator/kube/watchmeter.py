"""Where reflectors report what watches did; `metrics.Metrics` is one such place. Nothing here
counts."""

from typing import Protocol


class WatchMeter(Protocol):
    """Of one process, over all its clusters and kinds."""

    def watch_events(self, cluster: str, resource: str, count: int) -> None:
        """So many events came in one batch."""
        ...

    def watch_trouble(self, cluster: str, resource: str, trouble: str) -> None:
        """Something went wrong, by kind."""
        ...

    def watch_failing(self, cluster: str, resource: str, failing: bool) -> None:
        """Nothing can be learnt of a kind by watching, or it can again."""
        ...

    def watch_lists(self, cluster: str, resource: str) -> None:
        """A whole list was read."""
        ...

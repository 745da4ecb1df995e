"""
The page: made once in a cycle, shown at every scrape.

Its big part is made of a snapshot in the thread of the cycle and then only handed out, so that a scrape costs what the
small part costs, and two of them at once, or one during a cycle, see whole snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
from prometheus_client import CollectorRegistry, generate_latest

from metricsd.collectors import Collector
from metricsd.exposition import Writer
from metricsd.metrics import Metrics
from metricsd.snapshot import Snapshot


class Renderer:
    """
    Makes the big part, collector by collector; one that fails costs the page its own families only.

    Args:
        collectors: By name, in the order of the page.
        metrics: Learns how they fare.
        clock: For durations, in seconds.
    """

    def __init__(self, collectors: Mapping[str, Collector], *, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._collectors = collectors
        self._metrics = metrics
        self._clock = clock
        self._writer = Writer()
        self._failing: set[str] = set()
        self._log = structlog.get_logger()

    def render(self, snapshot: Snapshot) -> bytes:
        """
        Give the text of a snapshot; for one thread at a time.
        """
        return b"".join([self._part(name, snapshot) for name in self._collectors])

    def _part(self, name: str, snapshot: Snapshot) -> bytes:
        started = self._clock()
        try:
            text = b"".join([self._writer.write(series) for series in self._collectors[name](snapshot)])
        except Exception:  # noqa: BLE001 - a fault in one part must not blind all alerts; logged with its traceback
            self._metrics.collector_failures[name].inc()
            if name not in self._failing:
                self._log.exception("collector_failed", collector=name)
            self._failing.add(name)
            return b""
        self._failing.discard(name)
        self._metrics.collector_seconds[name].set(self._clock() - started)
        return text


class Page:
    """
    What a scrape gets.

    Args:
        registry: The small part.
        has_figures: Tells whether the big part may be shown.
    """

    def __init__(self, registry: CollectorRegistry, *, has_figures: Callable[[], bool]) -> None:
        self._registry = registry
        self._has_figures = has_figures
        self._figures = b""

    def show(self, figures: bytes) -> None:
        """
        Show another big part from now on.
        """
        self._figures = figures

    def text(self) -> bytes:
        """
        Give the page as it is now.
        """
        figures = self._figures if self._has_figures() else b""
        return figures + generate_latest(self._registry)

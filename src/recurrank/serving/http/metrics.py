"""Numbers for Prometheus, read off the service when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from recurrank.serving.service import Service


class ServiceCollector(Collector):
    """What was served, learned and dropped, for each ranker; open slates; how far the learner is behind."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        rankers = [self._service.hosted(name) for name in self._service.names()]
        for count in ("served", "learned", "dropped", "clicks"):
            family = CounterMetricFamily(f"recurrank_{count}", f"Slates or clicks: {count}.", labels=["ranker"])
            for hosted in rankers:
                family.add_metric([hosted.stored.name], hosted.fold.counts[count])
            yield family
        late = CounterMetricFamily("recurrank_reports", "Reports by what became of them.", labels=["status"])
        for status, number in dict(self._service.reported).items():
            late.add_metric([status], number)
        yield late
        waiting = GaugeMetricFamily("recurrank_open_slates", "Slates that wait for reports.", labels=["ranker"])
        for hosted in rankers:
            waiting.add_metric([hosted.stored.name], len(hosted.open))
        yield waiting
        yield CounterMetricFamily(
            "recurrank_unreadable_snapshots", "Snapshots that were passed over.", value=self._service.registry.unreadable
        )
        yield GaugeMetricFamily("recurrank_log_lag_events", "Events written but not learned yet.", value=self._service.lag())
        yield GaugeMetricFamily(
            "recurrank_learning", "Whether this server is the one that learns.", value=self._service.learner.learning
        )

"""Metrics for Prometheus, read from the service on request: none of them needs the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from recurrank import __version__
from recurrank.serving.commit import BOUNDS

if TYPE_CHECKING:
    from recurrank.serving.hosted import HostedRanker
    from recurrank.serving.service import Service


class ServiceCollector(Collector):
    """Counts of each ranker, and what operators want alerts for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        service = self._service
        rankers = service.registry.all()
        yield InfoMetricFamily("recurrank", "Which version is running.", value={"version": __version__})
        yield from _rankers(rankers)
        yield from self._ages(rankers)
        reports = CounterMetricFamily("recurrank_reports", "Reports by what became of them.", labels=["status"])
        for status, number in dict(service.reported).items():
            reports.add_metric([status], number)
        yield reports
        yield from self._writing()
        yield from self._learning()
        yield from self._disk()

    def _ages(self, rankers: list[HostedRanker]) -> Iterator[Metric]:
        now, behind = self._service.learner.now(), self._service.lag() > 0
        ages = [(hosted.stored.name, hosted.ages(now, behind)) for hosted in rankers]
        for field, name, text in (
            ("view", "recurrank_view_age_seconds", "Since the view was renewed, where there is news."),
            ("snapshot", "recurrank_snapshot_age_seconds", "Since the last snapshot, where there is news."),
            ("overdue", "recurrank_expiry_overdue_seconds", "By which the oldest open slate's window is over."),
        ):
            family = GaugeMetricFamily(name, text, labels=["ranker"])
            for ranker, age in ages:
                family.add_metric([ranker], getattr(age, field))
            yield family

    def _writing(self) -> Iterator[Metric]:
        committer, total, buckets = self._service.committer, 0, []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), list(committer.counts), strict=True):
            total += count
            buckets.append((bound, float(total)))
        taken = HistogramMetricFamily("recurrank_commit_seconds", "Transactions that requests wait for.")
        taken.add_metric([], buckets, committer.seconds)
        yield taken
        yield GaugeMetricFamily("recurrank_queue_operations", "Operations that wait to be written.", value=committer.waiting)
        failed = self._service.trouble() is not None
        yield GaugeMetricFamily("recurrank_store_failed", "Whether the store cannot be used.", value=failed)

    def _learning(self) -> Iterator[Metric]:
        service = self._service
        learner, registry = service.learner, service.registry
        yield GaugeMetricFamily("recurrank_learning", "Whether this server is the one that learns.", value=learner.learning)
        failed = learner.failed is not None
        yield GaugeMetricFamily("recurrank_learner_failed", "Whether the learner cannot go on.", value=failed)
        yield GaugeMetricFamily("recurrank_log_lag_events", "Events written but not learned yet.", value=service.lag())
        broken = len(registry.broken)
        yield GaugeMetricFamily("recurrank_broken_rankers", "Rankers whose log cannot be folded.", value=broken)
        unreadable = registry.unreadable
        yield CounterMetricFamily("recurrank_unreadable_snapshots", "Snapshots that were passed over.", value=unreadable)

    def _disk(self) -> Iterator[Metric]:
        retention = self._service.retention
        yield GaugeMetricFamily("recurrank_store_bytes", "What the store takes on disk.", value=retention.size)
        if retention.disk is not None:
            total, free = retention.disk
            yield GaugeMetricFamily("recurrank_disk_bytes", "Size of the disk that the store is on.", value=total)
            yield GaugeMetricFamily("recurrank_disk_free_bytes", "What is free of it.", value=free)
        failed = retention.failed is not None
        yield GaugeMetricFamily("recurrank_retention_failed", "Whether old events cannot be removed.", value=failed)
        yield GaugeMetricFamily("recurrank_retention_floor", "The last event that left the log.", value=retention.floor)
        length = "Length of the log over what is asked to stay, in events or time."
        yield GaugeMetricFamily("recurrank_retention_length_ratio", length, value=retention.length)
        yield CounterMetricFamily("recurrank_retention_removed_events", "Events that were removed.", value=retention.removed)
        looked = retention.looked
        yield GaugeMetricFamily("recurrank_retention_time_seconds", "When old events were last looked for.", value=looked)


def _rankers(rankers: list[HostedRanker]) -> Iterator[Metric]:
    for count in ("served", "learned", "dropped", "clicks"):
        family = CounterMetricFamily(f"recurrank_{count}", f"Slates or clicks: {count}.", labels=["ranker"])
        for hosted in rankers:
            family.add_metric([hosted.stored.name], hosted.fold.counts[count])
        yield family
    waiting = GaugeMetricFamily("recurrank_open_slates", "Slates that wait for reports.", labels=["ranker"])
    for hosted in rankers:
        waiting.add_metric([hosted.stored.name], len(hosted.open))
    yield waiting
    brake = GaugeMetricFamily("recurrank_brake", "Whether the brake has stopped a ranker.", labels=["ranker"])
    for hosted in rankers:
        brake.add_metric([hosted.stored.name], hosted.mode.stopped is not None)
    yield brake

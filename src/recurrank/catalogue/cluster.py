"""A Parquet dataset whose passes run on a Dask cluster; the workers read the partitions.

A *partition* is several adjacent row groups. Each pass of a design (``design.optimal``) is one task per partition, with
the same code that reads a map on one machine, and a tree of merges. Only a small matrix travels to the workers, and the
best rows back. Tasks depend on nothing but their arguments, so that Dask can rerun them when a worker dies. The result
equals that of one machine to the last bit, as long as the machines' BLAS sums in the same order: see ``rows.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from recurrank._arrays import Features, Floats, Ints
from recurrank._dask import completed, connected
from recurrank.catalogue.parquet import Dataset, Group, Progress
from recurrank.catalogue.rows import Rows
from recurrank.catalogue.scan import Found, Lens, merged

PARTITION_NUMBERS = 1 << 24
"""Most numbers in a partition, unless a single row group has more: 64 MB of float32 in a worker."""
FAN_IN = 8
"""Results that are merged at a time."""
RETRIES = 3
"""Retries of a task whose worker died."""


class Cluster:
    """A dataset as a source for a design (``design.optimal.Source``); made by :func:`on_cluster`."""

    precise = False

    def __init__(self, dataset: Dataset, client: Any, progress: Progress | None = None) -> None:
        self.dataset, self.client, self.progress = dataset, client, progress
        self.parts = _partitions(dataset)

    def __len__(self) -> int:
        return self.dataset.rows

    @property
    def dim(self) -> int:
        """Features per row."""
        return self.dataset.dim

    def begin(self, which: Ints) -> tuple[Floats, Floats]:
        """Column scales and the chosen rows, in one pass."""
        tasks = []
        for part in self.parts:
            first = part.groups[0].start
            low, high = np.searchsorted(which, [first, first + part.rows])
            tasks.append((part, which[low:high] - first))
        found = self._gather([self._submit(_begin, *task) for task in tasks])
        return np.max([scales for scales, _ in found], axis=0), np.concatenate([rows for _, rows in found])

    def scan(self, lens: Lens, most: int) -> Found:
        """The result of a pass over all rows."""
        level = [self._submit(_scan, part, lens, most) for part in self.parts]
        leaves = level
        while len(level) > 1:
            groups = [level[start : start + FAN_IN] for start in range(0, len(level), FAN_IN)]
            level = [self._submit(merged, group, most) for group in groups]
        (found,) = self._gather(level, waiting_for=leaves)
        return Found(*found)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(work, *arguments, pure=False, retries=RETRIES)

    def _gather(self, futures: list[Any], waiting_for: list[Any] | None = None) -> list[Any]:
        for done, future in enumerate(completed(self.client, waiting_for or futures), start=1):
            if future.status == "error":
                future.result()
            if self.progress is not None:
                self.progress(done, len(self.parts))
        gathered: list[Any] = self.client.gather(futures)
        return gathered


@contextmanager
def on_cluster(dataset: Dataset, address: str, progress: Progress | None = None) -> Iterator[Cluster]:
    """The dataset on the cluster whose scheduler is at the address; ``progress`` counts the partitions of each pass."""
    with connected(address) as client:
        yield Cluster(dataset, client, progress)


def _partitions(dataset: Dataset) -> list[Dataset]:
    parts: list[Dataset] = []
    held: list[Group] = []
    size = 0
    for group in dataset.groups:
        if held and (size + group.rows) * dataset.dim > PARTITION_NUMBERS:
            parts.append(dataset.only(held))
            held, size = [], 0
        held.append(group)
        size += group.rows
    return [*parts, dataset.only(held)]


def _rows(part: Dataset) -> tuple[Features, Floats]:
    """A partition's rows, and the largest absolute value of each column."""
    features, scales = np.empty((part.rows, part.dim), np.float32), np.zeros(part.dim)
    first = part.groups[0].start
    for group in part.groups:
        for rows in part.read(group, ids=False):
            features[rows.start - first : rows.start - first + len(rows.features)] = rows.features
            np.maximum(scales, rows.scales, out=scales)
    return features, scales


def _begin(part: Dataset, which: Ints) -> tuple[Floats, Floats]:
    features, scales = _rows(part)
    return scales, features[which].astype(np.float64)


def _scan(part: Dataset, lens: Lens, most: int) -> Found:
    found, first = Rows(_rows(part)[0]).scan(lens, most), part.groups[0].start
    return found._replace(indices=found.indices + first, outside=found.outside + first)

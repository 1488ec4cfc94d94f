"""Results on disk: one Parquet file, one row per experiment, replaced atomically.

Every write makes a new file that replaces the old one, so that a reader, or a run after a crash, finds either the old rows
or the new ones. A row records the sources that computed it: a row of other code is not reused.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from recurrank._sources import sources_digest
from recurrank.experiments.experiment import Experiment, Result, code_of

NAME = "results.parquet"
PATIENCE = 20
"""Minimum wait before the next write, as a multiple of the duration of the last one."""


def code() -> str:
    """A fingerprint of the package's sources, 12 hexadecimal digits."""
    return sources_digest().hex()[:12]


class ResultsFile:
    """The rows of a folder, locked while open. ``with ResultsFile(folder) as file: file.add(result)``."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.rows: dict[str, Result] = {}
        self.outdated = 0
        self.elapsed = 0.0
        self._lock: Any = None
        self._new_folder = False
        self._began = time.monotonic()
        self._written = (0.0, 0.0)  # time at which the last write ended, and its duration, in seconds
        self._unwritten = False

    def __enter__(self) -> Self:
        _pyarrow()
        folder = self.path.parent
        self._new_folder = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / ".lock", "w")
        except OSError as error:
            raise ValueError(f"{folder}: cannot be written ({error.strerror}); give another folder") from error
        try:
            _lock(self._lock)
        except OSError as error:
            self._lock.close()
            raise ValueError(f"{folder}: another run is writing there; wait for it, or give another folder") from error
        try:
            if self.path.exists():
                self._read()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._unwritten:
                self.write()
        finally:
            self._release()

    def _release(self) -> None:
        folder = self.path.parent
        (folder / ".lock").unlink(missing_ok=True)
        self._lock.close()
        if self._new_folder and not any(folder.iterdir()):  # no rows were written
            folder.rmdir()

    def finished(self, experiment: Experiment) -> Result | None:
        """The row of an experiment that was run already with the same id, horizon, data, problem, options and code."""
        row = self.rows.get(experiment.id)
        if row is None or (row.rounds, row.data) != (experiment.environment.rounds, experiment.environment.source.data):
            return None
        return row if row.code == code_of(experiment) else None

    def add(self, result: Result) -> None:
        """Add a row, and write the file if the last write was long enough ago."""
        self.rows[result.id] = result
        self._unwritten = True
        ended, took = self._written
        if time.monotonic() - ended >= PATIENCE * took:
            self.write()

    def write(self, order: Iterable[str] = ()) -> None:
        """Write all rows, those of ``order`` first."""
        pa, pq = _pyarrow()
        began = time.monotonic()
        rows = [self.rows[name] for name in dict.fromkeys([*order, *self.rows]) if name in self.rows]
        table = pa.table({field: [_plain(getattr(row, field)) for row in rows] for field in Result._fields}, _schema(pa))
        notes = {"code": code(), "elapsed": repr(self.elapsed + time.monotonic() - self._began)}
        partial = self.path.with_name(NAME + ".partial")
        try:
            pq.write_table(table.replace_schema_metadata(notes), partial)
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            os.replace(partial, self.path)
        finally:
            partial.unlink(missing_ok=True)
        self._unwritten = False
        self._written = (time.monotonic(), time.monotonic() - began)

    @property
    def seconds(self) -> float:
        """Seconds that all runs into this folder have taken so far."""
        return self.elapsed + time.monotonic() - self._began

    def _read(self) -> None:
        rows, notes = read_results(self.path)
        if notes.get("code") == code():
            self.rows = {row.id: row for row in rows}
            self.elapsed = float(notes.get("elapsed", 0.0))
        else:
            self.outdated = len(rows)


def read_results(path: Path) -> tuple[list[Result], dict[str, str]]:
    """The rows of a results file, and its metadata; ValueError if it is not such a file."""
    pa, pq = _pyarrow()
    try:
        table = pq.read_table(path)
        columns = {field: table.column(field).to_pylist() for field in Result._fields}
        notes = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(f"{path}: not a file of results ({error}); move it away or give another folder") from error
    rows = [Result(*values) for values in zip(*columns.values(), strict=True)]
    arrays = [
        row._replace(
            checkpoints=np.array(row.checkpoints, np.int64),
            regret=np.array(row.regret, np.float64),
            measures=json.loads(str(row.measures)),
        )
        for row in rows
    ]
    return arrays, notes


def _schema(pa: Any) -> Any:
    kinds = dict.fromkeys(("id", "environment", "ranker", "data", "code", "optimum", "measures"), pa.string())
    kinds |= {"checkpoints": pa.list_(pa.int64()), "regret": pa.list_(pa.float64()), "seconds": pa.float64()}
    return pa.schema([(field, kinds.get(field, pa.int64())) for field in Result._fields])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps({name: list(map(float, curve)) for name, curve in value.items()})
    return value.tolist() if isinstance(value, np.ndarray) else value


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError("out: a folder with a report needs pyarrow and plotly; install recurrank[report]") from error
    return pa, pq


def _lock(file: Any) -> None:
    """Lock a file against other processes until it is closed; the system releases it when a process dies."""
    try:
        import fcntl
    except ImportError:  # not on Windows, where the user has to avoid two runs into one folder
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

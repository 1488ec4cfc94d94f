"""Run experiments in processes of this machine or on a Dask cluster, except those that are finished already.

An engine only sends experiments to :func:`~recurrank.experiments.experiment.run_one` and returns rows as they arrive;
the engine, the number of processes and the order make no difference to a row.
"""

from __future__ import annotations

import os
import signal
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from recurrank._dask import address_of, completed, connected
from recurrank.experiments.experiment import Experiment, Failure, Result, attempt, run_one
from recurrank.experiments.results import ResultsFile
from recurrank.plugins import refuse_while_loading

Progress = Callable[[int, int], None]
One = Callable[[Experiment], Result | Failure]


def run(
    experiments: list[Experiment],
    jobs: int = -1,
    engine: str = "local",
    file: ResultsFile | None = None,
    progress: Progress | None = None,
    failures: list[Failure] | None = None,
) -> list[Result]:
    """The rows of all experiments, in their order; those in ``file`` are not run again, and new ones are added to it.

    Args:
        experiments: what to run.
        jobs: the number of processes of the local engine; -1 means one per core.
        engine: ``local``, or ``dask:ADDRESS`` of a scheduler, for example ``dask:tcp://127.0.0.1:8786``.
        file: the file of finished rows.
        progress: called with the rounds done, of ``sum(e.environment.rounds for e in experiments)``, and the runs done.
        failures: if given, experiments that raise are added here and have no row; otherwise an error ends the run.

    """
    refuse_while_loading()
    run_all = _engine(engine, jobs, run_one if failures is None else attempt)
    rows: dict[str, Result] = {}
    if file is not None:
        rows = {e.id: row for e in experiments if (row := file.finished(e)) is not None}
    done = sum(row.rounds for row in rows.values())
    todo = _long_ones_first([e for e in experiments if e.id not in rows])
    if progress is not None:
        progress(done, len(rows))
    if todo:
        for outcome in run_all(todo):
            if isinstance(outcome, Failure):
                (failures if failures is not None else []).append(outcome)
                continue
            rows[outcome.id] = outcome
            done += outcome.rounds
            if file is not None:
                file.add(outcome)
            if progress is not None:
                progress(done, len(rows))
    if file is not None and todo:
        file.write(order=[e.id for e in experiments])
    return [rows[e.id] for e in experiments if e.id in rows]


def _long_ones_first(experiments: list[Experiment]) -> list[Experiment]:
    """Longest horizon first, so that no process ends with a long one; first runs before second ones, since they compile."""
    return sorted(experiments, key=lambda e: (e.run > 0, -e.environment.rounds, e.run))


def _engine(engine: str, jobs: int, one: One) -> Callable[[list[Experiment]], Iterator[Result | Failure]]:
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs == 0 or jobs < -1:
        raise ValueError(f"jobs: {jobs!r} is not a number of processes; give 1 or more, or -1 for one per core")
    address = address_of(engine)
    if address is None:
        return lambda experiments: _local(experiments, jobs, one)
    return lambda experiments: _dask(experiments, address, one)


def _local(experiments: list[Experiment], jobs: int, one: One) -> Iterator[Result | Failure]:
    from joblib import Parallel, delayed

    cores = os.cpu_count() or 1
    processes = min(len(experiments), cores if jobs < 0 else jobs)
    if processes == 1:
        yield from map(one, experiments)
        return
    # one experiment at a time per process: they are long, and their lengths differ
    parallel = Parallel(n_jobs=processes, batch_size=1, pre_dispatch="2*n_jobs", return_as="generator_unordered")
    with _ignoring_interrupts():  # inherited by the processes: this one handles Ctrl-C, and ends them
        rows = parallel(delayed(one)(experiment) for experiment in experiments)
    with _replacing_workers():
        yield from rows


@contextmanager
def _replacing_workers() -> Iterator[None]:
    """Do not warn of processes that joblib replaces after an experiment because they have grown by 300 MB.

    Compiling does that: numba and LLVM keep 50 to 100 MB per ranker, 1.6 GB for all of them. Replacing such a process keeps
    memory small and loses nothing, since the next one finds the machine code on disk.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning, r"joblib\.")
        yield


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signal handlers can be set only in the main thread
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _dask(experiments: list[Experiment], address: str, one: One) -> Iterator[Result | Failure]:
    with connected(address) as client:
        names = [f"{experiment.id}-{uuid.uuid4().hex}" for experiment in experiments]
        futures = client.map(one, experiments, key=names)
        try:
            for future in completed(client, futures):
                yield future.result()
        finally:
            client.cancel(futures)

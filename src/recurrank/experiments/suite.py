"""Suites: rankers in environments, and a report. Running one in Python does the same as the command of its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from recurrank._arrays import as_count
from recurrank.experiments.comparison import Comparison
from recurrank.experiments.experiment import (
    Environment,
    Experiment,
    Failure,
    Result,
    as_names,
    cross,
    parse_rankers,
    split_names,
    worked_out,
)
from recurrank.experiments.report import Report, needs_plotly, write_report
from recurrank.experiments.results import ResultsFile
from recurrank.experiments.runner import Progress, run
from recurrank.rankers import Ranks, kinds, make


@dataclass(frozen=True)
class Suite:
    """Every ranker in every environment, ``runs`` times. In each run all rankers meet the same problem and the same users.

    Args:
        environments: the environments that the rankers run in.
        rankers: registry names, with options as in ``"toprank:delta=T^-1"``; a list, or one string with commas.
        report: the contents of the report besides the numbers.
        runs: runs of each ranker in each environment.
        first: the number of the first run; the next ones count up.
        name: the first part of the experiments' ids.
        also: by environment, rankers that run only there.
        options: by ranker, its options in this suite, if none are given with its name.

    Raises ValueError, in one line, for an unknown ranker or option, and for more runs than an environment has independent
    problems.

    >>> from recurrank.experiments.experiment import Environment, Synthetic
    >>> small = Environment("small", Synthetic("cascade", items=20, dim=3), items=20, dim=3, positions=3, rounds=200)
    >>> found = Suite([small], "oracle,random", runs=2).run(jobs=1)
    >>> [(row.environment, row.ranker, row.runs) for row in found.rows]
    [('small', 'oracle', 2), ('small', 'random', 2)]

    """

    environments: Iterable[Environment]
    rankers: str | Iterable[str]
    report: Report = field(default_factory=lambda: Report("Rankers compared", ""))
    _: KW_ONLY
    ranks: ClassVar[Ranks] = "catalogue"
    """The kind of ranking that the rankers do."""
    runs: int = 10
    first: int = 0
    name: str = "suite"
    also: Mapping[str, Iterable[str]] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    experiments: list[Experiment] = field(init=False)

    def __post_init__(self) -> None:
        runs, first = as_count("runs", self.runs), as_count("seed", self.first, least=0)
        labels = as_names("rankers", self.rankers)
        experiments = []
        for environment in self.environments:
            wanted = parse_rankers([*labels, *self.also.get(environment.name, ())], self.ranks)
            self.try_options(wanted, environment)
            wanted = {label: dict(self.options.get(label, given)) for label, given in wanted.items()}
            experiments += cross(self.name, environment, wanted, runs, first)
        object.__setattr__(self, "experiments", experiments)

    def try_options(self, rankers: Mapping[str, Mapping[str, Any]], environment: Environment) -> None:
        """ValueError, before any run, for options that a ranker refuses."""
        for label, options in rankers.items():
            if options:
                try:
                    self.try_one(label, worked_out(options, environment.rounds), environment)
                except ValueError:
                    raise
                except Exception:  # an error in the ranker, not in its options: its runs report it
                    continue

    def try_one(self, label: str, options: dict[str, Any], environment: Environment) -> None:
        """Make a ranker with these options."""
        size: dict[str, Any] = {"positions": environment.positions, "rounds": environment.rounds, "seed": 0}
        make(label.partition(":")[0], features=np.eye(environment.positions + 1), **size, **options)

    def run(
        self,
        out: str | Path | None = None,
        *,
        jobs: int = -1,
        engine: str = "local",
        bound: bool = False,
        progress: Progress | None = None,
        say: Callable[[str], None] | None = None,
        command: str = "",
        survive: bool = False,
    ) -> Comparison:
        """Run the experiments that are not finished, and write the report.

        Args:
            out: a folder for results, report and figures; a stopped run continues from the finished rows.
            jobs: processes on this machine; -1 means one per core.
            engine: ``"local"``, or ``"dask:ADDRESS"`` of a Dask scheduler.
            bound: whether the figures show Theorem 1's bound.
            progress: called with the rounds and the runs that are done.
            say: called with messages for the user, for example that earlier rows are reused.
            command: the command that started it, for the report's reproduce.txt.
            survive: whether the other runs continue when one raises. Its ranker has no rows in that environment, and
                :attr:`Comparison.failures` has the error; the next call tries it again.

        """
        failures: list[Failure] | None = [] if survive else None
        say = say or (lambda line: None)
        folder = None if out is None else Path(out)
        if folder is not None:
            needs_plotly()
        with nullcontext() if folder is None else ResultsFile(folder) as file:
            if file is not None:
                self._tell(file, say)
            try:
                results = run(self.experiments, jobs, engine, file, progress, failures)
            except KeyboardInterrupt:
                if file is not None:
                    done = f"{self._finished(file)} of {len(self.experiments)} runs"
                    say(f"{done} are finished and kept in {folder}; the same call continues from there")
                raise
            broken = {(failure.environment, failure.ranker) for failure in failures or ()}
            results = [row for row in results if (row.environment, row.ranker) not in broken]
            if file is not None and folder is not None and results:
                self.write(folder, results, replace(self.report, bound=bound, elapsed=file.seconds, command=command))
        return Comparison(results, self.report.published, failures or [], command)

    def write(self, folder: Path, results: list[Result], report: Report) -> None:
        """Write the report into a folder."""
        write_report(folder, results, report)

    def _tell(self, file: ResultsFile, say: Callable[[str], None]) -> None:
        if file.outdated:
            say(f"{file.path}: {file.outdated} rows of another version of recurrank; they are run again")
        before = self._finished(file)
        if before:
            folder, count = file.path.parent, len(self.experiments)
            say(f"{before} of {count} runs were finished before, in {folder}; delete it to run them again")

    def _finished(self, file: ResultsFile) -> int:
        return sum(file.finished(experiment) is not None for experiment in self.experiments)


class RequestsSuite(Suite):
    """A suite of rankers of requests, which are made for the features of the requests."""

    ranks: ClassVar[Ranks] = "requests"
    FROM_REQUESTS = ("dim", "context", "interactions")
    """Options that the requests determine."""

    def try_one(self, label: str, options: dict[str, Any], environment: Environment) -> None:
        for name in self.FROM_REQUESTS:
            if name in options:
                raise ValueError(f"rankers: {label!r}: {name} follows from the requests; leave it out")
        kind: Any = kinds(self.ranks)[label.partition(":")[0]]
        kind(dim=2, positions=environment.positions, rounds=environment.rounds, **options)


def chosen(known: Mapping[str, Environment], names: str | None, what: str = "environments") -> list[Environment]:
    """The environments of these names, separated by commas, each once; or all for None; ValueError for an unknown name."""
    wanted = list(known) if names is None else split_names(names) or [names]
    for name in wanted:
        if name not in known:
            raise ValueError(f"{what}: {name!r} is unknown; choose from {', '.join(known)}")
    return [known[name] for name in wanted]

"""The paper's synthetic experiments (Section 5) as data: an id, a problem, a ranker, a horizon, a seed.

An experiment is named like ``paper/position/recurrank/3``: environment, ranker and run. Its random streams follow from
the environment and the run alone, so that all rankers meet the same problems, and the result is the same in any
process and in any order.
"""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Callable, Iterable
from importlib import resources
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats, Ints, as_count
from recurrank.experiments.figures import Curve


class Environment(NamedTuple):
    """One of the paper's set-ups; horizons as in the authors' published driver (the text does not have them)."""

    name: str
    clicks: str
    items: int
    dim: int
    positions: int
    rounds: int


ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment("cascade", "cascade", items=10_000, dim=5, positions=10, rounds=500_000),
        Environment("position", "position-based", items=10_000, dim=5, positions=10, rounds=5_000_000),
    )
}


class Experiment(NamedTuple):
    """One run of one ranker in one environment."""

    environment: Environment
    ranker: str
    run: int

    @property
    def id(self) -> str:
        return f"paper/{self.environment.name}/{self.ranker}/{self.run}"


class Result(NamedTuple):
    """What came of an experiment."""

    experiment: Experiment
    rounds: Ints
    regret: Floats
    seconds: float


class Row(NamedTuple):
    """A line of the paper's tables, ours and theirs."""

    environment: str
    ranker: str
    rounds: int
    runs: int
    regret_mean: float
    regret_se: float
    seconds_mean: float
    paper_regret: float | None
    paper_seconds: float | None


def plan(environments: list[str], rankers: list[str], runs: int, rounds_scale: float = 1.0) -> list[Experiment]:
    """The experiments asked for; ValueError for a name that does not exist."""
    from recurrank.rankers import names

    runs = as_count("runs", runs)
    if not 0 < rounds_scale <= 1000:
        raise ValueError(f"rounds-scale: {rounds_scale} is not a factor; give a number above 0, for example 0.1")
    for kind, asked, known in (("environments", environments, list(ENVIRONMENTS)), ("rankers", rankers, names())):
        for name in asked:
            if name not in known:
                raise ValueError(f"{kind}: {name!r} is unknown; choose from {', '.join(known)}")
        if not asked:
            raise ValueError(f"{kind}: none given; choose from {', '.join(known)}")
    experiments = []
    environments, rankers = list(dict.fromkeys(environments)), list(dict.fromkeys(rankers))  # twice is once
    for name in environments:
        environment = ENVIRONMENTS[name]
        scaled = environment._replace(rounds=max(1, round(environment.rounds * rounds_scale)))
        experiments += [Experiment(scaled, ranker, number) for ranker in rankers for number in range(runs)]
    return experiments


def run(experiments: list[Experiment], jobs: int = 1, progress: Callable[[int], None] | None = None) -> list[Result]:
    """Run them in ``jobs`` processes (-1: one a core), in any order; the results are in the order asked for."""
    from joblib import Parallel, delayed

    if jobs == 0 or jobs < -1:
        raise ValueError(f"jobs: {jobs} is not a number of processes; give 1 or more, or -1 for one a core")
    results = []
    processes = max(1, min(len(experiments), os.cpu_count() or 1, jobs if jobs > 0 else len(experiments)))
    for result in Parallel(n_jobs=processes, return_as="generator")(delayed(run_one)(experiment) for experiment in experiments):
        results.append(result)
        if progress is not None:
            progress(len(results))
    return results


def run_one(experiment: Experiment) -> Result:
    """Run one experiment, on one thread: so its result does not depend on how many run beside it."""
    from threadpoolctl import threadpool_limits

    import recurrank as rr

    environment = experiment.environment
    streams = np.random.SeedSequence([zlib.crc32(environment.name.encode()), experiment.run]).spawn(3)
    with threadpool_limits(1):
        problem = rr.synthetic(items=environment.items, dim=environment.dim, seed=streams[0])
        model = rr.clicks.make(environment.clicks, problem.attraction, environment.positions)
        ranker = rr.rankers.make(
            experiment.ranker,
            features=problem.features,
            positions=environment.positions,
            rounds=environment.rounds,
            seed=streams[1],
        )
        played = rr.simulate(ranker, model, environment.rounds, streams[2])
    return Result(experiment, played.rounds, played.regret, played.seconds)


def summary(results: Iterable[Result]) -> list[Row]:
    """Means and standard errors over the runs, with the published numbers beside them."""
    published = _published()
    rows = []
    for (environment, ranker), group in _grouped(results).items():
        final = np.array([result.regret[-1] for result in group])
        whole = ENVIRONMENTS[environment.name].rounds == environment.rounds  # a shorter run has no published number
        theirs = published.get((environment.name, ranker)) if whole else None
        rows.append(
            Row(
                environment=environment.name,
                ranker=ranker,
                rounds=environment.rounds,
                runs=len(group),
                regret_mean=float(final.mean()),
                regret_se=_standard_error(final),
                seconds_mean=float(np.mean([result.seconds for result in group])),
                paper_regret=theirs[0] if theirs else None,
                paper_seconds=theirs[1] if theirs else None,
            )
        )
    return rows


def curves(results: Iterable[Result]) -> dict[str, list[Curve]]:
    """Mean regret curves with standard errors, by environment."""
    figures: dict[str, list[Curve]] = {}
    for (environment, ranker), group in _grouped(results).items():
        regret = np.array([result.regret for result in group])
        spread = np.array([_standard_error(column) for column in regret.T])
        figures.setdefault(environment.name, []).append(Curve(ranker, group[0].rounds, regret.mean(axis=0), spread))
    return figures


def _grouped(results: Iterable[Result]) -> dict[tuple[Environment, str], list[Result]]:
    groups: dict[tuple[Environment, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.experiment.environment, result.experiment.ranker), []).append(result)
    return groups


def _standard_error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _published() -> dict[tuple[str, str], tuple[float, float]]:
    """The paper's Tables 2 and 3: regret and seconds by environment and registry name."""
    names = {"RecurRank": "recurrank", "CascadeLinUCB": "cascade-linucb", "TopRank": "toprank"}
    text = resources.files("recurrank.experiments").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (row["environment"], names[row["ranker"]]): (float(row["regret"]), float(row["seconds"]))
        for row in csv.DictReader(text.splitlines())
    }

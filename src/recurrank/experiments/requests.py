"""The requests suite: every visitor's own candidates, under click models unknown to the rankers, as data.

Requests draw 40 candidates from one of 40 clusters of 2,000 items with 10 skewed features, and attraction is 0.2 + 0.25 <v, u>,
unless an environment says otherwise. ``told`` is an oracle: Anchored, told P(examined | slate, clicks above).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from recurrank._arrays import as_count
from recurrank.experiments.experiment import Environment, Experiment, making, worked_out
from recurrank.experiments.movielens_requests import MovieLens
from recurrank.experiments.report import Report
from recurrank.experiments.suite import RequestsSuite, Suite, chosen
from recurrank.rankers import kinds
from recurrank.rankers.anchored import Anchored
from recurrank.rankers.ranker import Ranker
from recurrank.requests import Churn, Clusters, Context, Drift, Leader, Orthogonal, Requests, Uniform, Users, Zipf
from recurrank.simulation.run import Run, simulate

RANKERS = "anchored,told,naive-thompson,first-thompson,lints-pbmrank,request-cascade-lints,request-c3-ucb,club-cascade"
PATIENCE = (0.25, 1.75)


def seeded(stream: Any, seed: int) -> Requests:
    """The stream with another seed, also if it is wrapped in other streams."""
    if hasattr(stream, "base"):
        return replace(stream, base=seeded(stream.base, seed))  # type: ignore[no-any-return]
    return replace(stream, seed=seed)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RequestSource:
    """A stream of requests with a new seed each run, under a click model by name.

    Attributes:
        stream: the stream of requests.
        clicks: the click model.
        link: the link of attraction, for rankers with this option.
        discount: the discount, for rankers with this option.

    """

    stream: Requests
    clicks: str
    link: str = "linear"
    discount: float = 1.0
    units: ClassVar[None] = None

    @property
    def data(self) -> str:
        stream: Any = self.stream
        while hasattr(stream, "base"):
            stream = stream.base
        return getattr(stream, "data", "synthetic requests")

    def play(self, experiment: Experiment, seed: np.random.SeedSequence) -> tuple[Ranker, Run]:
        """One run: the ranker at the end, and the results."""
        stream, environment = seeded(self.stream, int(seed.generate_state(1)[0])), experiment.environment
        kind, world = kinds("requests")[experiment.ranker.partition(":")[0]], stream.world()
        size: dict[str, Any] = {
            "dim": world.features.shape[1],
            "positions": environment.positions,
            "rounds": environment.rounds,
        }
        if world.contexts.size:
            size |= {"context": world.contexts.shape[1], "interactions": "outer"}
        if issubclass(kind, Anchored):
            size |= {"link": self.link, "discount": self.discount}
        with making(experiment.ranker):
            ranker: Ranker = kind(seed=seed, **{**size, **worked_out(experiment.options, environment.rounds)})
        return ranker, simulate(ranker, clicks=self.clicks, requests=stream, rounds=environment.rounds, seed=seed)


def _environment(
    name: str, stream: Requests, clicks: str, rounds: int = 300_000, positions: int = 10, **more: Any
) -> Environment:
    world = stream.world()
    return Environment(name, RequestSource(stream, clicks, **more), len(world.features), world.dim, positions, rounds)


@functools.cache
def known() -> dict[str, Environment]:
    """Every environment by its name."""
    clusters, orthogonal = Clusters(), Orthogonal()
    impatient, named = Clusters(patience=PATIENCE), Clusters(patience=PATIENCE, named=True)
    models = ("document", "position", "cascade", "dependent", "dbn", "mixture", "ubm", "ccm", "set")
    found = [_environment(name, clusters, name) for name in models]
    found += [
        _environment("patience", impatient, "position"),
        _environment("patience-named", named, "position"),
        _environment("leader-patience-named", Leader(named, 0.9), "position", 100_000),
        _environment("leader-0.9", Leader(clusters, 0.9), "position"),
        _environment("leader-0.33", Leader(clusters, 0.33), "position"),
        _environment("orthogonal-position", orthogonal, "position", positions=5),
        _environment("orthogonal-cascade", orthogonal, "cascade", positions=5),
        _environment("logistic", Clusters(link="logistic"), "position", 100_000, link="logistic"),
        _environment("uniform", Uniform(), "position"),
        _environment("zipf", Zipf(), "position"),
        _environment("context", Context(), "position"),
        _environment("churn", Churn(clusters), "position"),
        _environment("drift", Drift(clusters), "position", discount=0.9999),
        _environment("users", Users(), "cascade"),
        _environment("wide", Clusters(items=2400, dim=16, candidates=50), "position"),
    ]
    return {environment.name: environment for environment in found}


def movielens_environments(path: str | Path) -> dict[str, Environment]:
    """Users of a MovieLens data set as visitors, with fitted and with non-linear attraction."""
    truths = {"movielens": "fitted", "movielens-rated": "rated"}
    return {name: _environment(name, MovieLens(path, truth=truth), "position", 100_000) for name, truth in truths.items()}


def suite(
    rankers: str = RANKERS,
    environments: str | None = None,
    runs: int = 5,
    rounds: int | None = None,
    movielens: str | Path | None = None,
) -> Suite:
    """Rankers of requests in these environments, by default all of them.

    Args:
        rankers: names, separated by commas.
        environments: names, separated by commas.
        runs: runs of each ranker in each environment.
        rounds: T instead of each environment's own.
        movielens: a MovieLens data set as GroupLens ships it, to include its environments.

    >>> small = suite("anchored", "cascade", runs=1, rounds=200)
    >>> [experiment.id for experiment in small.experiments]
    ['requests/cascade/anchored/0']

    """
    wanted = chosen({**known(), **(movielens_environments(movielens) if movielens else {})}, environments)
    if rounds is not None:
        wanted = [replace(environment, rounds=as_count("rounds", rounds)) for environment in wanted]
    report = Report("Requests", "Every visitor's own candidates, under click models unknown to the rankers.")
    return RequestsSuite(wanted, rankers, report, runs=runs, name="requests")

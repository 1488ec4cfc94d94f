"""The robustness suite: environments that are hard in different ways, as data.

Dense ones have items on all sides, a few of them good; orthogonal ones have no features to learn from, every item is a
dimension of its own. A *leader* hides the rest; *tied* leaders take long to tell apart; in a *chain* every item is a little
worse than the one before; *steep* examination leaves nearly all to the first position; under *set*-dependent examination what
is seen depends on what stands above it, and not by the cascade model; at *low* attraction there is little to see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from recurrank._arrays import Features, Floats, Ints, as_count
from recurrank.clicks.factored import Factored
from recurrank.clicks.model import ClickModel
from recurrank.clicks.optimum import Optimum
from recurrank.experiments.experiment import Environment, Experiment, Setting, cross, parse_rankers, split_names, try_options
from recurrank.seeds import stream

RANKERS = "balanced,recurrank,toprank"
LOGARITHMIC = ("dense-cascade", "chain-cascade", "set-dense")


@dataclass(frozen=True)
class Case:
    """A way to draw attractions, and a way to look at a list.

    Attributes:
        attractions: dense features as in the paper, or one dimension an item with attractions as the name says.
        clicks: which click model; "set" examines a position with probability prod (1 - alpha / 2) over the items above.
        items: L.
        dim: d, of dense ones.
        decay: what the examination is multiplied by from position to position, where clicks is "steep".
        scale: of attractions.

    """

    attractions: Literal["dense", "uniform", "leader", "tied", "chain"]
    clicks: Literal["position", "document", "cascade", "dependent", "steep", "set"]
    items: int
    dim: int
    decay: float = 0.3
    scale: float = 1.0
    units: ClassVar[None] = None

    @property
    def data(self) -> str:
        return "synthetic"

    def setting(self, run: int, seed: np.random.SeedSequence, positions: int) -> Setting:
        features, attraction = self._items(seed)
        return Setting(features, self._model(self.scale * attraction, positions))

    def _items(self, seed: np.random.SeedSequence) -> tuple[Features, Floats]:
        import recurrank as rr

        if self.attractions == "dense":
            problem = rr.synthetic(items=self.items, dim=self.dim, seed=seed)
            return problem.features, problem.attraction
        rng, count = stream(seed, "problem"), self.items
        match self.attractions:
            case "uniform":
                attraction = rng.uniform(0.05, 0.9, count)
            case "leader":
                attraction = np.concatenate([[0.95], rng.uniform(0.02, 0.3, count - 1)])
            case "tied":
                attraction = np.concatenate([[0.8, 0.8], np.linspace(0.5, 0.05, count - 2)])
            case _:
                attraction = np.linspace(0.9, 0.0, count)
        return np.eye(count), stream(seed, "items").permutation(attraction)  # so that no ranker gains from a number

    def _model(self, attraction: Floats, positions: int) -> ClickModel:
        import recurrank as rr

        places = np.arange(positions)
        match self.clicks:
            case "position":
                return rr.clicks.PositionBased(attraction, 1 / (places + 1))
            case "steep":
                return rr.clicks.PositionBased(attraction, self.decay**places)
            case "document":
                return rr.clicks.DocumentBased(attraction)
            case "cascade":
                return rr.clicks.Cascade(attraction)
            case "dependent":
                return rr.clicks.DependentClick(attraction, np.full(positions, 0.6))
            case "set":
                return HalfHidden(attraction)


class HalfHidden(Factored):
    """Examination prod (1 - alpha / 2) over the items above."""

    def __init__(self, attraction: Floats) -> None:
        alpha = np.ascontiguousarray(attraction)

        def chi(items: Ints, k: int) -> float:
            seen = 1.0
            for j in range(k):
                seen *= 1 - 0.5 * alpha[items[j]]
            return seen

        super().__init__(alpha, chi)

    def optimum(self, positions: int) -> Optimum:
        """By attraction: the expected clicks are those of dependent clicks with continuation 1/2 (``clicks/optimum.py``)."""
        items = self.best(positions)
        return Optimum(items, self.expected(items), exact=True)


ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment("dense-position", Case("dense", "position", 10_000, 5), 10_000, 5, 10, 1_000_000),
        Environment("dense-document", Case("dense", "document", 1_000, 5), 1_000, 5, 10, 1_000_000),
        Environment("dense-cascade", Case("dense", "cascade", 10_000, 5), 10_000, 5, 10, 100_000),
        Environment("orthogonal", Case("uniform", "position", 20, 20), 20, 20, 5, 1_000_000),
        Environment("leader", Case("leader", "position", 20, 20), 20, 20, 5, 1_000_000),
        Environment("tied", Case("tied", "position", 20, 20), 20, 20, 6, 1_000_000),
        Environment("chain-cascade", Case("chain", "cascade", 10, 10), 10, 10, 6, 1_000_000),
        Environment("chain-dependent", Case("chain", "dependent", 10, 10), 10, 10, 6, 1_000_000),
        Environment("steep", Case("dense", "steep", 1_000, 5), 1_000, 5, 10, 1_000_000),
        Environment("set-dense", Case("dense", "set", 1_000, 5), 1_000, 5, 10, 1_000_000),
        Environment("set-orthogonal", Case("uniform", "set", 20, 20), 20, 20, 5, 1_000_000),
        Environment("low", Case("dense", "position", 1_000, 5, scale=0.05), 1_000, 5, 10, 1_000_000),
    )
}


def plan(
    rankers: str = RANKERS,
    environments: str | None = None,
    runs: int = 5,
    rounds: int | None = None,
    yandex: Path | None = None,
) -> list[Experiment]:
    """Every ranker in every environment asked for: by default all and MovieLens; the Yandex models if their file is given."""
    from recurrank.experiments import paper
    from recurrank.experiments.yandex import MODELS
    from recurrank.experiments.yandex import plan as plan_yandex

    as_count("runs", runs)
    known = {**ENVIRONMENTS, "movielens": paper.environments()["movielens"]}
    chosen = list(known) if environments is None else split_names(environments)
    for name in chosen:
        if name not in known:
            raise ValueError(f"environments: {name!r} is unknown; choose from {', '.join(known)}")
    wanted = parse_rankers(rankers)
    experiments: list[Experiment] = []
    for name in chosen:
        environment = known[name]
        if rounds is not None:
            environment = replace(environment, rounds=as_count("rounds", rounds))
        try_options(wanted, environment)
        experiments += cross("suite", environment, wanted, runs)
    if yandex is not None:
        experiments += plan_yandex(yandex, ",".join(MODELS), rankers, runs, rounds or 200_000)
    return experiments

"""The robustness suite: environments that are hard in different ways, as data.

*Dense* ones have items in all directions, a few of them good; *orthogonal* ones have no features to learn from: every item has
its own dimension. A *leader* hides the other items; *tied* leaders take long to tell apart; in a *chain* every item is a little
worse than the one before; *steep* examination favours the first position; *set*-dependent examination depends on the items
above, but not by the cascade model; at *low* attraction there are few clicks to learn from.
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
from recurrank.experiments.experiment import CatalogueSource, Environment, Setting
from recurrank.experiments.report import Report
from recurrank.experiments.suite import Suite, chosen
from recurrank.seeds import stream

LOGARITHMIC = ("dense-cascade", "chain-cascade", "set-dense")


@dataclass(frozen=True)
class Case(CatalogueSource):
    """A way to draw attractions, and a click model.

    Attributes:
        attractions: dense features as in the paper, or one dimension per item with attractions as the name says.
        clicks: the click model; "set" examines a position with probability prod (1 - alpha / 2) over the items above.
        items: L.
        dim: d, of dense features.
        decay: the factor of the examination from position to position, if clicks is "steep".
        scale: the factor of all attractions.

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
        return np.eye(count), stream(seed, "items").permutation(attraction)  # so that no ranker gains from their order

    def _model(self, attraction: Floats, positions: int) -> ClickModel:
        import recurrank as rr

        ranks = np.arange(positions)
        match self.clicks:
            case "position":
                return rr.clicks.PositionBased(attraction, 1 / (ranks + 1))
            case "steep":
                return rr.clicks.PositionBased(attraction, self.decay**ranks)
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


def suite(
    rankers: str = "balanced,recurrank,toprank",
    environments: str | None = None,
    runs: int = 5,
    rounds: int | None = None,
    yandex: str | Path | None = None,
) -> Suite:
    """The robustness suite, or part of it.

    Args:
        rankers: names, separated by commas.
        environments: names, separated by commas; by default all in this module, and MovieLens.
        runs: runs of each ranker in each environment.
        rounds: T instead of each environment's own.
        yandex: a file of click models fitted to real queries, whose environments are added.

    """
    from recurrank.experiments import paper
    from recurrank.experiments import yandex as queries

    wanted = chosen({**ENVIRONMENTS, "movielens": paper.set_ups()["movielens"]}, environments)
    if yandex is not None:
        wanted += queries.environments(Path(yandex)).values()
    if rounds is not None:
        wanted = [replace(environment, rounds=as_count("rounds", rounds)) for environment in wanted]
    lead = "Environments that are hard in different ways: docs/balanced.md says how, and who wins where."
    return Suite(wanted, rankers, Report("The robustness suite", lead, log=LOGARITHMIC), runs=runs)

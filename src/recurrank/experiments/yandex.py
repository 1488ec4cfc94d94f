"""Rankers on click behaviour that was really seen: models fitted to queries of the Yandex log.

The file is a list of queries, ``[{"query": id, "models": {"PBM": {"args": [...]}, ...}}, ...]``, ten documents each. There are
no features, so that d = L and the features are orthogonal (unit vectors): the general case of TopRank and BatchRank. A
run is a query; an environment is a click model.

| in the file | arguments | here |
|---|---|---|
| PBM | attraction, examination by rank | ``PositionBased`` with the first K ranks |
| CM | attraction | ``Cascade`` |
| DCM | attraction, probability of going on after a click, by rank | ``DependentClick`` with the first K ranks |
| DBN | attraction, satisfaction, probability of giving up unsatisfied | ``DynamicBayesian``, continuation = 1 - the last |
| CCM | attraction, alpha1, alpha2, alpha3 | ``ClickChain`` |
| UBM | attraction, examination by rank and rank of the last click (last: none yet) | ``UserBrowsing``, the first K ranks |
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recurrank._arrays import as_count
from recurrank.clicks import (
    Cascade,
    ClickChain,
    ClickModel,
    DependentClick,
    DynamicBayesian,
    PositionBased,
    UserBrowsing,
)
from recurrank.experiments.experiment import CatalogueSource, Environment, Setting
from recurrank.experiments.report import Report
from recurrank.experiments.suite import Suite, chosen
from recurrank.seeds import stream

MODELS = ("PBM", "CM", "DCM", "DBN", "CCM", "UBM")
POSITIONS = 5
ROUNDS = 200_000


@dataclass(frozen=True)
class Yandex(CatalogueSource):
    """One kind of click model, fitted to each of several queries."""

    model: str
    arguments: tuple[list[Any], ...]
    digest: str

    @property
    def data(self) -> str:
        return f"{len(self.arguments)} queries, {self.digest}"

    @property
    def units(self) -> int:
        return len(self.arguments)

    def setting(self, run: int, seed: np.random.SeedSequence, positions: int) -> Setting:
        """The items in random order, so that no ranker gains from their order."""
        arguments = self.arguments[run]
        order = stream(seed, "items").permutation(len(arguments[0]))
        return Setting(np.eye(len(order)), _click_model(self.model, arguments, order, positions))


def _click_model(name: str, arguments: list[Any], order: Any, k: int) -> ClickModel:
    attraction = np.asarray(arguments[0], np.float64)[order]
    match name:
        case "PBM":
            return PositionBased(attraction, arguments[1][:k])
        case "CM":
            return Cascade(attraction)
        case "DCM":
            return DependentClick(attraction, arguments[1][:k])
        case "DBN":
            return DynamicBayesian(attraction, np.asarray(arguments[1])[order], 1 - arguments[2])
        case "CCM":
            return ClickChain(attraction, *arguments[1:4])
        case _:
            gamma = np.asarray(arguments[1], np.float64)
            return UserBrowsing(attraction, np.column_stack([gamma[:k, : k - 1], gamma[:k, -1]]))


def read_queries(path: Path) -> dict[str, Yandex]:
    """The click models in a file, by name; ValueError says in one line what is wrong with it."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a JSON list of queries with fitted click models")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:12]
    try:
        queries = json.loads(content)
        fitted = {name: tuple(query["models"][name]["args"] for query in queries) for name in MODELS}
        sources = {name: Yandex(name, arguments, digest) for name, arguments in fitted.items()}
        if not queries:
            raise ValueError("no queries in it")
        for source in sources.values():
            for run in range(len(queries)):
                source.setting(run, np.random.SeedSequence(0), POSITIONS)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: not a whole list of queries with the models {', '.join(MODELS)} ({what})") from error
    return sources


def environments(path: Path, rounds: int = ROUNDS) -> dict[str, Environment]:
    """One environment per click model in a file."""
    rounds = as_count("rounds", rounds)
    found = {}
    for name, source in read_queries(path).items():
        items = len(source.arguments[0][0])
        found[name] = Environment(name, source, items, items, POSITIONS, rounds)
    return found


def suite(
    queries: str | Path,
    models: str = ",".join(MODELS),
    rankers: str = "recurrank,toprank,batchrank,cascade-klucb,random",
    runs: int = 30,
    rounds: int = ROUNDS,
) -> Suite:
    """Every ranker under every click model, one query per run.

    Args:
        queries: a file of click models fitted to real queries: see the top of this module.
        models: click models, separated by commas.
        rankers: names, separated by commas; by default some with few assumptions, one with the strongest, and a yardstick.
        runs: at most as many as there are queries.
        rounds: T.

    """
    lead = (
        "Click models fitted to real web-search queries, ten documents each, five of them shown. "
        "A run is a query; the items have no features, so that RecurRank works with d = L."
    )
    report = Report("Rankers on click behaviour from the Yandex log", lead, log=MODELS)
    return Suite(chosen(environments(Path(queries), rounds), models, "models"), rankers, report, runs=runs, name="yandex")

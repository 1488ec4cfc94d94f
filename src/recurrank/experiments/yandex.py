"""Rankers on observed click behaviour: models fitted to the queries of a log.

The file is what ``recurrank fit --out`` wrote, or the published models of the Yandex log (``clicks/fitted.py``). The
ten items with the largest attractions of each query take part; queries with fewer are skipped. The items have no features, so
d = L and the features are orthogonal (unit vectors): the general case of TopRank and BatchRank. A run is a query; an
environment is a click model.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recurrank._arrays import as_count
from recurrank.clicks.fitted import Queries, load
from recurrank.experiments.experiment import CatalogueSource, Environment, Setting
from recurrank.experiments.report import Report
from recurrank.experiments.suite import Suite, chosen
from recurrank.seeds import stream

MODELS = ("PBM", "CM", "DCM", "DBN", "CCM", "UBM")
ITEMS, POSITIONS = 10, 5
ROUNDS = 200_000


@dataclass(frozen=True)
class Yandex(CatalogueSource):
    """One kind of click model, fitted to each of several queries."""

    model: str
    fitted: Queries
    queries: tuple[str, ...]
    digest: str

    @property
    def data(self) -> str:
        return f"{len(self.queries)} queries, {self.digest}"

    @property
    def units(self) -> int:
        return len(self.queries)

    def setting(self, run: int, seed: np.random.SeedSequence, positions: int) -> Setting:
        """The items in random order, so that no ranker gains from their order."""
        query = self.queries[run]
        best = np.sort(np.argsort(-self.fitted[query].attraction, kind="stable")[:ITEMS])
        order = best[stream(seed, "items").permutation(ITEMS)]
        return Setting(np.eye(ITEMS), self.fitted.ordered(query, order))


def read_queries(path: Path) -> dict[str, Yandex]:
    """The click models in a file, by name in capitals; ValueError says in one line what is wrong with it."""
    fitted = load(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    queries = tuple(query for query, items in fitted.item_ids.items() if len(items) >= ITEMS)
    if not queries:
        raise ValueError(f"{path}: no query with {ITEMS} items or more, the least that rankers are compared on")
    sources = {name.upper(): Yandex(name.upper(), fitted[name], queries, digest) for name in fitted}
    try:
        for source in sources.values():
            for run in range(len(queries)):
                model = source.setting(run, np.random.SeedSequence(0), POSITIONS).model
                model.examine(np.arange(POSITIONS))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: not a file of fitted click models ({what})") from error
    return sources


def environments(path: Path, rounds: int = ROUNDS) -> dict[str, Environment]:
    """One environment per click model in a file."""
    rounds = as_count("rounds", rounds)
    by_name = {}
    for name, source in read_queries(path).items():
        by_name[name] = Environment(name, source, ITEMS, ITEMS, POSITIONS, rounds)
    return by_name


def suite(
    queries: str | Path,
    models: str = ",".join(MODELS),
    rankers: str = "recurrank,toprank,batchrank,cascade-klucb,random",
    runs: int = 30,
    rounds: int = ROUNDS,
) -> Suite:
    """Every ranker under every click model, one query per run.

    Args:
        queries: a file that ``recurrank fit --out`` wrote, or the published models of the Yandex log.
        models: click models, separated by commas; also SDBN, if the file has it.
        rankers: names, separated by commas; by default some with few assumptions, one with the strongest, and a random one.
        runs: at most the number of queries.
        rounds: T.

    """
    lead = (
        "Click models fitted to the queries of a log, ten documents each, five of them shown. "
        "A run is a query; the items have no features, so that RecurRank works with d = L."
    )
    report = Report("Rankers on click models fitted to a log", lead, log=MODELS)
    return Suite(chosen(environments(Path(queries), rounds), models, "models"), rankers, report, runs=runs, name="yandex")

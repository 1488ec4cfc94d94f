"""Queries and documents: an impression of each ranker, PDGD against its literal twin, and a LETOR file to a map.

Times are of the processor. Queries have the size of the other rankers' benchmark, 1,000 documents with 5 features, and that of
MSLR-WEB10K's, 116 with 136. A round should take at most 20 us, a target that not all rankers reach. The file has 120 MB.
scikit-learn is not a dependency: the time of its reader is a constant here, measured once.

    python -m benchmarks queries
    python -m benchmarks.queries TRAIN TEST     # PDGD on a sample of MSLR, beside the figures of its authors' code
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tests import naive_documents

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from recurrank.experiments.queries import query_rows, suite
from recurrank.queries.simulation import QuerySimulation
from recurrank.rankers.documents import registered

DOCUMENTS, DIM, QUERIES, POSITIONS = 116, 136, 40, 10
IMPRESSIONS = {"pdgd": 3000, "dbgd": 3000, "mgd": 3000, "pmgd": 1000, "pairrank": 3000}
TARGET = 20
"""Target of a round, in microseconds."""
BYTES = 120_000_000
SKLEARN = 80e-9
"""Seconds of processor time per byte that load_svmlight_file took (9.7 s for 120 MB)."""


def run() -> list[Figure]:
    figures, many, train = [], queries(1000, 5, 4), queries(DOCUMENTS, DIM, QUERIES)
    for data in (many, train):
        for name, played in IMPRESSIONS.items():
            taken = impression(name, data) * 1e6
            detail = f"{data.most} x {data.dim}, mean of {played:,}"
            figures.append(at_most(f"{name}: an impression (a target, not a ratio)", taken, TARGET, "us", detail))
    slow, ours = literal(train), impression("pdgd", train)
    figures.append(at_least("pdgd: times faster than the literal twin", slow / ours, 50, "x", f"{slow * 1e6:.0f} us"))
    return figures + reading(train)


def queries(documents: int, dim: int, number: int) -> rr.queries.Queries:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, number * documents)
    features = np.clip(labels[:, None] / 8 + rng.random((len(labels), dim)) / 2, 0, 1)
    return rr.queries.Queries(features, labels, np.arange(0, len(labels) + 1, documents))


def impression(name: str, train: rr.queries.Queries) -> float:
    ranker = registered()[name](dim=train.dim, positions=POSITIONS, seed=0)
    simulation = QuerySimulation(ranker, train, rr.queries.make_users("navigational", 4, POSITIONS), seed=0)
    simulation.prepare()
    began = time.process_time()
    simulation.advance(IMPRESSIONS[name])
    return (time.process_time() - began) / IMPRESSIONS[name]


def literal(train: rr.queries.Queries) -> float:
    twin, rng = naive_documents.PDGD(DIM, POSITIONS, np.random.default_rng(0)), np.random.default_rng(1)
    began = time.process_time()
    for q in range(20):
        twin.rank(np.asarray(train.features[train.offsets[q] : train.offsets[q + 1]], np.float64))
        twin.learn((rng.random(POSITIONS) < 0.3).tolist())
    return (time.process_time() - began) / 20


def reading(train: rr.queries.Queries) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path, query = Path(folder) / "big.txt", 0
        lines = [" ".join(f"{p + 1}:{x:.6f}" for p, x in enumerate(row)) for row in train.features[:DOCUMENTS]]
        with open(path, "w") as file:
            while file.tell() < BYTES:
                file.writelines(f"{i % 5} qid:{query} {line}\n" for i, line in enumerate(lines))
                query += 1
        size = path.stat().st_size
        began = time.process_time()
        rr.queries.read(path, map=Path(folder) / "map")
        taken = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        at_most("a LETOR file to a map, over scikit-learn's reading", taken / (size * SKLEARN), 3, "x", f"{taken:.1f} s"),
        at_most("memory of the process", peak, 2, "GB", f"{size / 1e6:.0f} MB of text"),
    ]


AUTHORS = {"perfect": (0.3635, 0.0034), "navigational": (0.3295, 0.0058), "informational": (0.3129, 0.0067)}
"""NDCG@10 and its standard error of the PDGD of its authors on a sample of MSLR: 10^4 impressions, 5 runs."""


def quality(train: str, test: str) -> list[Figure]:
    """PDGD on a sample of MSLR: at most two standard errors of the difference behind the code of its authors."""
    experiments, figures = suite(train, test, rankers="pdgd", users=",".join(AUTHORS), impressions=10_000, runs=5), []
    for row in query_rows(experiments.run(jobs=1).results):
        mean, error = AUTHORS[row.users]
        detail = f"s.e. {row.ndcg_se:.4f}; authors {mean} ({error}); {row.seconds_mean * 100:.1f} us per impression"
        least = mean - 2 * np.hypot(error, row.ndcg_se)
        figures.append(at_least(f"pdgd on MSLR, {row.users} users: NDCG@10", row.ndcg_mean, least, "", detail))
    return figures


if __name__ == "__main__":
    for figure in quality(*sys.argv[1:3]):
        print(f"{figure.name}: {figure.value:.4f} ({figure.limit}; {figure.detail})")

"""Every ranker: time of a round, memory of its state, and times faster than its literal twin; the paper's two at full size."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np
from tests.naive import TWINS

import recurrank as rr
from benchmarks.measure import Figure, at_least, at_most
from recurrank.rankers.states import flatten

OWN = {
    "batchrank": "position",
    "bubblerank": "position",
    "cascade-ducb": "cascade",
    "cascade-klucb": "cascade",
    "cascade-lints": "cascade",
    "cascade-linucb": "cascade",
    "cascade-swucb": "cascade",
    "cascade-ucb-v": "cascade",
    "cascade-ucb1": "cascade",
    "cascade-woful": "cascade",
    "c3-ucb": "cascade",
    "club-cascade": "cascade",
    "dcm-klucb": "dependent",
    "gl-cdcm": "dependent",
    "grab": "position",
    "pb-mhb": "position",
    "pbm-pie": "position",
    "pbm-ucb": "position",
    "pie": "cascade",
    "rank1-elim": "position",
    "rank1-elim-kl": "position",
    "toprank": "position",
    "unirank": "position",
    "vac2-ucb": "cascade",
}
ITEMS, DIM, POSITIONS, ROUNDS = 1000, 5, 10, 100_000
FEWER = {"pb-mhb": 2_000}
"""Rounds of slow rankers, which take tens of microseconds per round."""
LARGE = {"items": 10_000, "dim": 5, "positions": 10, "rounds": 5_000_000}


def run() -> list[Figure]:
    figures = [_one(name) for name in rr.rankers.names() if name != "recurrank"]
    for name in ("toprank", "cascade-linucb"):
        figures += _large(name)
    return [*figures, _balanced(), *first_rounds()]


def first_rounds() -> list[Figure]:
    """The first rounds of Balanced, while nearly all items are left, in processor time; and its longest decision."""
    small, figures = rr.synthetic(items=2000, dim=10, seed=0), []
    model = rr.clicks.make("position-based", small.attraction, 10)
    rr.simulate(rr.Balanced(small.features, 10, 5000, 0), model, 5000, seed=1)  # compiles
    for items, limit, longest_limit in ((10**4, 30, 50), (10**5, 100, 100), (10**6, 500, 500)):
        problem = rr.synthetic(items=items, dim=10, seed=0)
        ranker = _TimedBalanced(problem.features, 10, 5_000_000, 0)
        model = rr.clicks.make("position-based", problem.attraction, 10)
        began = time.process_time()
        run = rr.simulate(ranker, model, 5000, seed=1)
        each = (time.process_time() - began) / 5000
        detail = f"d = 10, processor time; regret {run.regret[-1]:,.1f}"
        figures.append(at_most(f"balanced, first 5,000 rounds at L = {items:,}, a round", each * 1e6, limit, "us", detail))
        figures.append(at_most("... its longest decision", ranker.longest * 1e3, longest_limit, "ms", "processor time"))
    return figures


class _TimedBalanced(rr.Balanced):
    longest = 0.0

    def plan(self) -> None:
        began = time.process_time()
        super().plan()
        self.longest = max(self.longest, time.process_time() - began)


def _balanced() -> Figure:
    """Balanced at the size of the paper's synthetic problems; nearly all of the time is in its estimates."""
    problem, rounds = rr.synthetic(items=10_000, dim=5, seed=0), 1_000_000
    model = rr.clicks.make("position-based", problem.attraction, POSITIONS)
    runs = [rr.simulate(rr.Balanced(problem.features, POSITIONS, rounds, seed), model, rounds, seed=1) for seed in range(3)]
    lost = ", ".join(f"{run.regret[-1]:,.0f}" for run in runs)
    return at_most("balanced, L = 10^4, a round", min(run.seconds for run in runs) * 1e6 / rounds, 5, "us", f"regret {lost}")


def _one(name: str) -> Figure:
    problem = rr.synthetic(items=ITEMS, dim=DIM, seed=0)
    model = rr.clicks.make(OWN.get(name, "document"), problem.attraction, POSITIONS)
    options = {"attraction": problem.attraction.tolist()} if name == "oracle" else {}
    ranker = rr.rankers.make(name, features=problem.features, positions=POSITIONS, rounds=ROUNDS, seed=0, **options)
    played = FEWER.get(name, ROUNDS)
    ours = rr.simulate(ranker, model, played, seed=1).seconds / played
    stream, users = np.random.default_rng(0), np.random.default_rng(1)
    twin = TWINS[name](problem.features, POSITIONS, ROUNDS, stream, **options)
    rounds, began = 0, time.perf_counter()
    while rounds < 200 and time.perf_counter() - began < 2:
        items = twin.rank()
        twin.learn(list(items), model.sample(np.array(items), users).tolist())
        rounds += 1
    theirs = (time.perf_counter() - began) / rounds
    limit = 20 if ranker.uses_features else 2
    size = sum(np.asarray(part).nbytes for _, part in flatten(ranker.state, ranker.from_catalogue))
    detail = f"L = 1000, K = 10; {theirs / ours:,.0f} times faster than its twin; state {size / 1e6:.1f} MB"
    return at_most(f"{name}, a round", ours * 1e6, limit, "us", detail)


def _large(name: str) -> list[Figure]:
    """Measured in a separate process, for its memory."""
    script = f"from benchmarks.rankers import large; print(*large({name!r}))"
    for _ in range(2):  # the first may compile, which takes memory
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    ours, plain, memory, lost = (float(value) for value in out)
    limits = {"toprank": (500, 1500), "cascade-linucb": (400, 40)}[name]
    detail = f"position-based, L = 10^4, T = 5 * 10^6; regret {lost:,.0f}; the NumPy round {plain * 1e6:,.0f} us"
    figures = [
        at_most(f"{name} at full size, a round", ours * 1e9, limits[0], "ns", detail),
        at_least(f"{name}: times faster than a plain NumPy round", plain / ours, limits[1], "x", ""),
    ]
    if name == "toprank":
        figures.append(at_most("toprank's process, peak resident size", memory, 300, "MB", ""))
    return figures


def large(name: str) -> tuple[float, float, float, float]:
    """Seconds per round, ours and plain NumPy's; peak memory in MB; regret."""
    problem = rr.synthetic(items=LARGE["items"], dim=LARGE["dim"], seed=0)
    model = rr.clicks.make("position", problem.attraction, LARGE["positions"])
    options = {"delta": LARGE["rounds"] ** -0.5} if name == "toprank" else {}
    settings = {"positions": LARGE["positions"], "rounds": LARGE["rounds"], "seed": 0}
    ranker = rr.rankers.make(name, features=problem.features, **settings, **options)
    played = rr.simulate(ranker, model, LARGE["rounds"], seed=1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    plain = _plain_toprank if name == "toprank" else _plain_linucb
    return played.seconds / LARGE["rounds"], plain(problem.features), memory, float(played.regret[-1])


def _plain_linucb(features: np.ndarray, rounds: int = 50) -> float:
    """A round of CascadeLinUCB as one would write it with NumPy."""
    d, positions = features.shape[1], LARGE["positions"]
    gram, target, rng = np.eye(d), np.zeros(d), np.random.default_rng(0)
    began = time.perf_counter()
    for _ in range(rounds):
        inverse = np.linalg.inv(gram)
        width = np.sqrt(np.einsum("ij,jk,ik->i", features, inverse, features, optimize=True))
        score = np.minimum(features @ (inverse @ target) + 15 * width, 1)
        best = np.argpartition(-score, positions)[:positions]
        for item in best[np.argsort(-score[best])][: 1 + rng.integers(positions)]:
            gram += np.outer(features[item], features[item])
    return (time.perf_counter() - began) / rounds


def _plain_toprank(features: np.ndarray, rounds: int = 100) -> float:
    """A round of TopRank as one would write it with NumPy: rows of S and N of the clicked items, and their comparison."""
    items, positions, rng = len(features), LARGE["positions"], np.random.default_rng(0)
    surplus, total = np.zeros((items, items), np.float32), np.zeros((items, items), np.float32)
    surplus += 0  # touch the pages before the clock starts
    total += 0
    began = time.perf_counter()
    for _ in range(rounds):
        slate = rng.permutation(items)[:positions]
        clicked = slate[rng.random(positions) < 0.28]
        u = np.zeros(items, np.float32)
        u[clicked] = 1
        for item in clicked:
            difference = 1 - u
            surplus[item] += difference
            total[item] += difference
            surplus[:, item] -= difference
            total[:, item] += difference
            n = np.maximum(total[item], 1)
            np.flatnonzero(surplus[item] >= np.sqrt(2 * n * np.log(3.3437 * np.sqrt(n) * 2236)))
    return (time.perf_counter() - began) / rounds

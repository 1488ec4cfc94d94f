"""How often 95 % intervals of evaluation contain the truth: ``python -m benchmarks.coverage [LOGS]``.

Logs of 2,000 pages, drawn uniformly from five items for three positions, with users who click by the position-based model and
by the dynamic Bayesian one. Estimators whose assumption fails under a model are skipped there; the direct method,
which fits a model eleven times, is tried on one log in five.
"""

from __future__ import annotations

import sys
from math import perm

import numpy as np

import recurrank as rr
from recurrank.logs.evaluate.report import evaluate
from recurrank.logs.sessions import Sessions

ITEMS, POSITIONS, PAGES = 5, 3, 2_000
ATTRACTION = np.array([0.7, 0.55, 0.4, 0.25, 0.1])
MODELS = {
    "position-based": rr.clicks.PositionBased(ATTRACTION, np.array([1.0, 0.6, 0.4])),
    "dynamic Bayesian": rr.clicks.DynamicBayesian(ATTRACTION, np.array([0.8, 0.3, 0.6, 0.5, 0.2]), 0.8),
}
HOLDS = {
    "position-based": "iips,sn-iips,rips,sn-rips,cascade-dr,position,direct",
    "dynamic Bayesian": "rips,sn-rips,cascade-dr,direct",
}
DIRECT = {"position-based": "pbm", "dynamic Bayesian": "dbn"}
POLICY = [1, 0, 2]


def simulated(name: str, seed: int) -> Sessions:
    """A log; its propensities are those of uniform pages."""
    rng = np.random.default_rng(seed)
    items = np.argsort(rng.random((PAGES, ITEMS)), axis=1)[:, :POSITIONS].astype(np.int32)
    clicks = np.zeros((PAGES, POSITIONS), np.uint8)
    model, reading = MODELS[name], np.ones(PAGES, np.bool_)
    for k in range(POSITIONS):
        look = rng.random(PAGES) < model.examination[k] if name == "position-based" else reading
        clicks[:, k] = look & (rng.random(PAGES) < ATTRACTION[items[:, k]])
        if name == "dynamic Bayesian":
            stops = (clicks[:, k] == 1) & (rng.random(PAGES) < model.satisfaction[items[:, k]])
            reading &= ~stops & (rng.random(PAGES) < model.continuation)
    chances = {"propensity": np.full((PAGES, POSITIONS), 1 / ITEMS), "joint": np.full(PAGES, 1 / perm(ITEMS, POSITIONS))}
    return Sessions(np.zeros(PAGES, np.int32), items, clicks, ["q"], [str(i) for i in range(ITEMS)], **chances)


def main(logs: int) -> None:
    for name, model in MODELS.items():
        truth = float(model.expected(POLICY).sum())
        held: dict[str, list[bool]] = {}
        for seed in range(logs):
            chosen = HOLDS[name] if seed < logs // 5 else HOLDS[name].removesuffix(",direct")
            found = evaluate(simulated(name, seed), [str(i) for i in POLICY], chosen, model=DIRECT[name])
            for row in found.rows:
                held.setdefault(row.estimator, []).append(not row.refused and row.low <= truth <= row.high)
        for estimator, hits in held.items():
            print(f"{name:17s} {estimator:13s} {np.mean(hits):6.1%} of {len(hits)} logs", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)

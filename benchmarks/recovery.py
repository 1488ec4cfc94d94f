"""Fits on logs that a click model made: ``python -m benchmarks.recovery [LOGS] [MODEL ...]``, by default 20 logs per model.

Each log has 10^5 pages of 5 out of 12 items, with parameters drawn for it; another 10^5 pages are tested on. Per model: how
often the report picks it, and how far the log-likelihood per position of its fit is behind that of the true
parameters on the test pages, on average and at most.
"""

from __future__ import annotations

import sys

import numpy as np

from recurrank.logs.fit.models import NAMES, FittedModel, held_out, pages_of
from recurrank.logs.fit.report import fit
from recurrank.logs.sessions import Sessions

PAGES, ITEMS, POSITIONS = 100_000, 12, 5


def true_model(name: str, rng: np.random.Generator) -> FittedModel:
    """A model of one query with parameters drawn at random."""
    k, j = np.indices((POSITIONS, POSITIONS))
    attraction, satisfaction = rng.uniform(0.1, 0.7, ITEMS), rng.uniform(0.1, 0.9, ITEMS)
    curve = np.r_[1.0, np.sort(rng.uniform(0.2, 0.95, POSITIONS - 1))[::-1]]
    parts = {
        "pbm": {"examination": curve},
        "ubm": {"examination": np.where(j == POSITIONS - 1, curve[k], 1 / np.maximum(k - j, 1) ** rng.uniform(0.3, 1))},
        "cm": {},
        "dcm": {"continuation": rng.uniform(0.3, 0.9, POSITIONS)},
        "sdbn": {"continuation": np.ones(1)},
        "dbn": {"continuation": rng.uniform(0.6, 0.9, 1)},
        "ccm": {f"alpha{n}": rng.uniform(*ends, 1) for n, ends in ((1, (0.7, 0.95)), (2, (0.5, 0.9)), (3, (0.1, 0.5)))},
    }[name]
    behaviour = {part: np.tile(np.ravel(values), (2, 1)) for part, values in parts.items()}
    has = {"satisfaction": satisfaction} if name in ("sdbn", "dbn") else {}
    return FittedModel(name, np.zeros(ITEMS, np.int32), attraction, np.full(2, 0.5), behaviour, **has)


def simulated(model: FittedModel, rng: np.random.Generator) -> Sessions:
    """Pages of random items, and the clicks of users who follow the model."""
    items = np.argsort(rng.random((PAGES, ITEMS)), axis=1)[:, :POSITIONS].astype(np.int32)
    clicks = np.zeros((PAGES, POSITIONS), np.uint8)
    reading, last = np.ones(PAGES, np.bool_), np.full(PAGES, POSITIONS - 1)
    for k in range(POSITIONS):
        shown = items[:, k]
        if model.name in ("pbm", "ubm"):
            table = model.behaviour["examination"][0]
            look = table[k * POSITIONS + last] if model.name == "ubm" else np.full(PAGES, table[k])
            clicks[:, k] = rng.random(PAGES) < look * model.attraction[shown]
            last[clicks[:, k] == 1] = k
        else:
            clicks[:, k] = reading & (rng.random(PAGES) < model.attraction[shown])
            after, _, by_position, skipped = model.going_on()
            onward = np.where(clicks[:, k] == 1, after[k] if by_position else after[shown], skipped[0])
            reading &= rng.random(PAGES) < onward
    return Sessions(np.zeros(PAGES, np.int32), items, clicks, ["q"], [str(i) for i in range(ITEMS)])


def behind(name: str, seed: int) -> tuple[str, float]:
    """The model that is picked for a log, and how far the fit of the true model is behind the truth."""
    rng = np.random.default_rng([NAMES.index(name), seed])
    truth = true_model(name, rng)
    log, test = simulated(truth, rng), simulated(truth, rng)
    found = fit(log, test=test)
    pages = pages_of(log)
    shown = held_out(test, log, pages)
    for part in ("attraction", "satisfaction"):  # in the order of the log's pairs
        if getattr(truth, part) is not None:
            setattr(truth, part, getattr(truth, part)[pages.pairs.item])
    true = float(truth.score(*shown).pages.sum()) / test.clicks.size
    return found.best, true - next(row.log_likelihood for row in found.rows if row.model == name)


def main(logs: int, names: list[str]) -> None:
    for name in names or NAMES:
        found = [behind(name, seed) for seed in range(logs)]
        picked = [best for best, _ in found]
        lost = np.array([gap for _, gap in found])
        others = ", ".join(sorted(set(picked) - {name}))
        print(
            f"{name:5s} picked in {picked.count(name)} of {logs}{f' (else {others})' if others else ''}; behind the truth by "
            f"{lost.mean():.1e}, at most {lost.max():.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])

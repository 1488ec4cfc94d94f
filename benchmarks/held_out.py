"""Fitted click models against the usual estimates on held-out pages: ``python -m benchmarks.held_out SESSIONS.parquet``.

The usual estimates have one examination curve (or one continuation by position) for all queries and one click and one skip
as a prior: EM for the position-based and user browsing models, and the published closed forms for the dependent click and the
simplified dynamic Bayesian model, in which users stop at their last click. Items that were not seen have attraction 1/2.
"""

from __future__ import annotations

import sys

import numpy as np

from recurrank.logs.fit.models import FittedModel, Pages, fit_model, held_out, pages_of
from recurrank.logs.fit.product import collapse, last_clicks
from recurrank.logs.reading import pages_only, read

MODELS = ("dcm", "sdbn", "pbm", "ubm")
SHARE, STEPS, SPLITS = 0.38, 50, 5


def usual(name: str, pages: Pages) -> FittedModel:
    """A model by its usual estimate."""
    rows, half = pages.queries + 1, np.full(pages.queries + 1, 0.5)
    if name in ("pbm", "ubm"):
        attraction, examination = _em(pages, browsing=name == "ubm")
        return FittedModel(name, pages.pairs.query, attraction, half, {"examination": np.tile(examination, (rows, 1))})
    clicked, position = pages.clicks > 0, np.arange(pages.items.shape[1])
    last = np.where(clicked.any(axis=1), len(position) - 1 - np.argmax(clicked[:, ::-1], axis=1), len(position) - 1)
    seen, final = (position <= last[:, None]) & (pages.items >= 0), position == last[:, None]

    def rate(ones: np.ndarray, trials: np.ndarray) -> np.ndarray:
        size = len(pages.pairs)
        return (1 + np.bincount(pages.items[ones], minlength=size)) / (2 + np.bincount(pages.items[trials], minlength=size))

    attraction = rate(clicked & seen, seen)
    if name == "dcm":
        onward = (1 + (clicked & ~final).sum(axis=0)) / (2 + clicked.sum(axis=0))
        return FittedModel(name, pages.pairs.query, attraction, half, {"continuation": np.tile(onward, (rows, 1))})
    one = {"continuation": np.ones((rows, 1))}
    return FittedModel(name, pages.pairs.query, attraction, half, one, satisfaction=rate(clicked & final, clicked))


def _em(pages: Pages, browsing: bool) -> tuple[np.ndarray, np.ndarray]:
    positions = pages.items.shape[1]
    cells = positions**2 if browsing else positions
    cell = last_clicks(pages.clicks, pages.lengths) if browsing else np.arange(positions, dtype=np.int32)[None, :]
    i, x, n, c = collapse(pages.items, cell, pages.clicks, len(pages.pairs), cells)
    a, e = np.full(len(pages.pairs), 0.5), np.full(cells, 0.5)
    for _ in range(STEPS):
        both = a[i] * e[x]
        attracted, examined = (c + (n - c) * (own - both) / (1 - both) for own in (a[i], e[x]))
        a = (1 + np.bincount(i, attracted, len(a))) / (2 + np.bincount(i, n, len(a)))
        e = (1 + np.bincount(x, examined, cells)) / (2 + np.bincount(x, n, cells))
    return a, e


def scores(model: FittedModel, test: tuple) -> tuple[float, float]:
    """Log-likelihood and perplexity."""
    scored = model.score(*test)
    marginal, _, count = scored.positions
    return float(scored.pages.sum() / test[2].sum()), float((2 ** (-marginal / count / np.log(2))).mean())


def main(path: str) -> None:
    log = pages_only(read(path), "log")
    table = np.empty((SPLITS, len(MODELS), 2, 2))
    for split in range(SPLITS):
        train, rest = log.split("random", SHARE, seed=split)
        pages = pages_of(train)
        test = held_out(rest, train, pages)
        for number, name in enumerate(MODELS):
            table[split, number] = scores(usual(name, pages), test), scores(fit_model(name, pages, 1e-7), test)
    print(f"{SPLITS} random splits, {SHARE:.0%} held out; log-likelihood, then perplexity: usual, fitted, gain")
    for number, name in enumerate(MODELS):
        for kind, sign in ((0, 1), (1, -1)):
            old, new = table[:, number, :, kind].T
            gain = sign * (new - old)
            print(f"{name:5s} {old.mean():8.4f} {new.mean():8.4f}  better by {gain.mean():.4f} (at least {gain.min():.4f})")


if __name__ == "__main__":
    main(sys.argv[1])

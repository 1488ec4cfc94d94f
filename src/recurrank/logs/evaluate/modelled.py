"""Estimators by a click model: position-based with fitted examination, and the direct method.

``position``: with examination e by position fitted to the log, an item's attraction is its clicks divided by the
examination of its positions; propensities are not needed. The policy earns sum_k e_k attraction(item at k). It assumes the
position-based model.

``direct``: the policy's expected clicks under the click model that explains the log best (or a named one); a ranker that
learns is run on it for as many rounds as the log has pages.

Intervals are from the grouped jackknife, which repeats the estimate without each of several groups of pages.
"""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank.clicks.model import ClickModel
from recurrank.logs.evaluate.intervals import jackknife
from recurrank.logs.evaluate.policy import Policy
from recurrank.logs.evaluate.result import Estimate
from recurrank.logs.evaluate.weights import Refused
from recurrank.logs.fit import climb
from recurrank.logs.fit.click_models import click_model
from recurrank.logs.fit.product import Product
from recurrank.logs.fit.report import fit
from recurrank.logs.fit.result import Fit
from recurrank.logs.sessions import EMPTY, Sessions, pairs_of

GROUPS = 40
"""Groups of pages that the jackknife of the position-based estimator leaves out in turn."""
REFITS = 10
"""The same for the direct method."""
TOLERANCE = 1e-9
"""Gain per impression at which the position-based fit ends."""
WEAK = 0.01
"""Strength of its priors, in observations."""


def position(log: Sessions, policy: Policy) -> Estimate:
    """Position-based with fitted examination; the examination is the same for all queries."""
    if policy.target is None:
        raise Refused("what was shown needs no model: its clicks are in the log")
    pairs, coded = pairs_of(log)
    shown = coded >= 0
    positions, size = log.positions, len(pairs) * log.positions
    keys = np.where(shown, coded * np.int64(positions) + np.arange(positions), -1)
    group = np.arange(len(log)) % GROUPS
    counts, clicked = (np.zeros((GROUPS, size)) for _ in range(2))
    for number in range(GROUPS):
        rows = group == number
        own = keys[rows][shown[rows]]
        counts[number] = np.bincount(own, minlength=size)
        clicked[number] = np.bincount(own, log.clicks[rows][shown[rows]], size)
    lookup = {(int(q), int(i)): n for n, (q, i) in enumerate(zip(pairs.query, pairs.item, strict=True))}
    wanted = np.array([[lookup.get((q, int(i)), -1) for i in row] for q, row in enumerate(policy.target)], np.int64)
    share = np.bincount(log.query, minlength=len(log.query_ids)) / len(log)
    total, clicks = counts.sum(axis=0), clicked.sum(axis=0)
    value, values = _solve(total, clicks, positions, wanted, share, None)
    without = np.array(
        [_solve(total - counts[g], clicks - clicked[g], positions, wanted, share, values)[0] for g in range(GROUPS)]
    )
    return Estimate("position", value, *jackknife(value, without), float(len(log)))


def _solve(
    counts: Floats, clicks: Floats, positions: int, wanted: Ints, share: Floats, start: climb.Values | None
) -> tuple[float, climb.Values]:
    """The policy's value from counts by pair and position, and the parameters."""
    seen = np.flatnonzero(counts > 0)
    pair, position = (seen // positions).astype(np.int32), (seen % positions).astype(np.int32)
    model = Product(
        pair,
        position,
        np.zeros(len(seen), np.int32),
        counts[seen],
        clicks[seen],
        np.zeros(len(counts) // positions, np.int32),
        positions,
        1,
    )
    for family in model.families:
        family.strength = WEAK
    begin = model.starts()[0] if start is None else start
    values = climb.climb(model, begin, TOLERANCE, 500).values
    attraction, examination = values
    earned = np.where(wanted >= 0, attraction[np.maximum(wanted, 0)], 0.0) * examination[: wanted.shape[1]]
    return float(share @ earned.sum(axis=1)), values


def direct(log: Sessions, policy: Policy, model: str | None, seed: int) -> Estimate:
    """The direct method."""
    fitted = fit(log, models=model or ("pbm", "sdbn", "dbn", "ccm", "ubm", "dcm"), split="none")
    name = fitted.best
    value = _expected(fitted, name, log, policy, seed)
    group = np.arange(len(log)) % REFITS
    kept: list[Bools] = [group != number for number in range(REFITS)]
    without = np.array([_expected(fit(log.take(rows), name, split="none"), name, log, policy, seed) for rows in kept])
    return Estimate(f"direct ({name})", value, *jackknife(value, without), float(len(log)))


def _expected(found: Fit, name: str, log: Sessions, policy: Policy, seed: int) -> float:
    """Expected clicks per page under a fitted model, over the log's queries."""
    pages = np.bincount(log.query, minlength=len(log.query_ids))
    fitted, total = found.fitted[name], 0.0
    for query in np.flatnonzero(pages):
        members = np.flatnonzero(found.pairs.query == query)
        model = click_model(fitted, int(query), members)
        if policy.ranker is not None:
            total += pages[query] * _learned(policy.ranker, model, int(pages[query]), log.positions, seed)
            continue
        if policy.target is None:
            raise Refused("what was shown needs no model: its clicks are in the log")
        index = {int(item): number for number, item in enumerate(found.pairs.item[members])}
        order = [index[int(item)] for item in policy.target[query] if item != EMPTY and int(item) in index]
        total += pages[query] * float(model.expected(order).sum()) if order else 0.0
    return total / float(pages.sum())


def _learned(label: str, model: ClickModel, rounds: int, positions: int, seed: int) -> float:
    """Clicks per page of a ranker that learns from users who click like the model."""
    from recurrank import labels, rankers
    from recurrank.simulation import simulate

    name, options = labels.parse(label, "policy")
    size = len(model.attraction)
    ranker = rankers.make(name, features=np.eye(size), positions=min(positions, size), rounds=rounds, seed=seed, **options)
    run = simulate(ranker, model, rounds, seed)
    return float(run.clicks[-1]) / rounds


def covered(log: Sessions, policy: Policy) -> Floats:
    """By position, the share of pages for which the log has the policy's item at that position at least once."""
    assert policy.target is not None
    shown = np.zeros((len(log.query_ids), log.positions), np.bool_)
    for k in range(log.positions):
        equal = log.items[:, k] == policy.target[log.query, k]
        shown[np.unique(log.query[equal]), k] = True
    share: Floats = shown[log.query].mean(axis=0)
    return share

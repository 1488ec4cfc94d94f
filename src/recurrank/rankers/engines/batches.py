"""How long CascadeLinUCB's ranking is certain not to change: limits on the drift of theta and on the shrinking of widths.

The formulas are in ``cascade_linucb.py``, whose state this is.
"""

from __future__ import annotations

import math
from typing import Any

from recurrank._arrays import Floats
from recurrank._compiled import inner, natural
from recurrank.rankers.engines.regression import dot, whiten

WIDTH, PRECISION, DRIFT_LIMIT, SPREAD_LIMIT, SPREAD, MARGIN, OUTSIDE = range(7)
"""Indices into ``State.numbers``."""
BATCH, STALE, CANDIDATES, LAST, SCANNED, SCANS, DECISIONS = range(7)
"""Indices into ``State.counts``."""
NO_LIMIT = 1e300
ROUNDING = 1e-9
"""Bounds do not tell apart scores that are closer than this, since they are sums of rounded numbers."""


@inner
def measured(state: Any, item: int) -> tuple[float, float]:
    """<x, theta> + c sqrt(x' M^-1 x), before the minimum with 1, and that root; leaves z in the scratch row."""
    x = state.features[natural(item)]
    width = math.sqrt(whiten(state.regression.factor, x, state.z[len(state.best)]))
    return dot(x, state.regression.theta) + float(state.numbers[WIDTH]) * width, width


@inner
def since_scan(state: Any) -> tuple[float, float]:
    """Theta - theta_s in the norm of M_s = F F', that is |F' (theta - theta_s)|; and the change of the centre's score."""
    theta, then, factor = state.regression.theta, state.scanned_theta, state.scanned_factor
    moved, shift = 0.0, 0.0
    for j in range(len(theta)):
        shift += state.centre[j] * (theta[j] - then[j])
        part = 0.0
        for i in range(j, len(theta)):
            part += factor[i, j] * (theta[i] - then[i])
        moved += part * part
    return math.sqrt(moved), shift


@inner
def certify(state: Any) -> None:
    """The shown items whitened, and how far drift and spread may go before their order or choice could change."""
    size, d = len(state.best), len(state.drift)
    c, factor, theta = state.numbers[WIDTH], state.regression.factor, state.regression.theta
    for i in range(d):
        state.drift[i] = 0.0
    state.numbers[SPREAD] = 0.0
    drift, shrink = NO_LIMIT, 1.0
    for k in range(size):
        x = state.features[state.best[k]]
        state.length[k] = whiten(factor, x, state.z[k])
        state.estimate[k] = dot(x, theta)
        state.score[k] = state.estimate[k] + c * math.sqrt(state.length[k])  # raw from here on
    bar = state.score[size - 1]
    for k in range(size):
        raw, own = state.score[k], math.sqrt(state.length[k])
        if raw >= 1.0:  # must stay at 1
            drift, shrink = _tighten(drift, shrink, raw - 1.0, own, c * own)
        else:
            drift = min(drift, (1.0 - raw) / own) if own > 0 else drift  # must stay below
        if k > 0 and state.score[k] < 1.0:  # must stay below the one above, unless that is at 1 and stays there
            above = state.score[k - 1]
            if above < 1.0:
                drift, shrink = _pair(state, drift, shrink, k - 1, state.features[state.best[k]], above - raw)
    last, longest = state.best[size - 1], math.sqrt(state.length[size - 1])
    for index in range(state.counts[CANDIDATES]):
        item, most = state.candidates[index], state.raw[index]
        if bar >= 1.0 and item > last:  # it loses the tie anyway
            continue
        # c |z| <= most - <x, theta>, as most is a bound on the score: are the limits certain to stay?
        x = state.features[natural(item)]
        own = max(most - dot(x, theta), 0.0) / c if c > 0 else NO_LIMIT
        if bar < 1.0:  # must stay below the last shown one
            if bar - most < (2 + ROUNDING) * max(drift * (own + longest), shrink * c * longest) and not shown(state, item):
                drift, shrink = _pair(state, drift, shrink, size - 1, x, bar - measured(state, item)[0])
        elif 1.0 - most < (1 + ROUNDING) * drift * own and not shown(state, item):  # must stay below 1
            raw, own = measured(state, item)
            drift = min(drift, (1.0 - raw) / own) if own > 0 else drift
    state.numbers[DRIFT_LIMIT] = 0.999 * drift * drift if drift < 1e150 else NO_LIMIT
    # 1 - 1/sqrt(1 + S) <= shrink
    state.numbers[SPREAD_LIMIT] = 0.999 * (1 / (1 - shrink) ** 2 - 1) if shrink < 1.0 else NO_LIMIT
    _certify_outside(state, min(bar, 1.0))


@inner
def _tighten(drift: float, shrink: float, gap: float, distance: float, width: float) -> tuple[float, float]:
    """Half of the gap for the drift of theta, half for the shrinking of the width above."""
    if distance > 0:
        drift = min(drift, gap / (2 * distance))
    if width > 0:
        shrink = min(shrink, gap / (2 * width))
    return drift, shrink


@inner
def _pair(state: Any, drift: float, shrink: float, k: int, x: Floats, gap: float) -> tuple[float, float]:
    """Shown item k must stay above x."""
    size = len(state.best)
    whiten(state.regression.factor, x, state.z[size])
    distance = 0.0
    for i in range(len(x)):
        distance += (state.z[k, i] - state.z[size, i]) ** 2
    if distance == 0.0 and gap == 0.0:
        return drift, shrink  # the same features: always tied, and the item index decides
    return _tighten(drift, shrink, gap, math.sqrt(distance), state.numbers[WIDTH] * math.sqrt(state.length[k]))


@inner
def shown(state: Any, item: int) -> bool:
    shown = False
    for k in range(len(state.best)):
        shown |= state.best[k] == item
    return shown


@inner
def _certify_outside(state: Any, bar: float) -> None:
    """Limit the drift so that what is not a candidate stays out until the next decision looks again.

    In a batch theta moves by at most ``drift`` in the norm of M_r, and M_r dominates M_s. So both the distance from the
    last scan and the room between the bar and what is outside shrink by no more than the terms below.
    """
    if state.counts[CANDIDATES] == len(state.features):
        return
    size = len(state.best)
    moved, shift = since_scan(state)
    drift = state.numbers[MARGIN] - moved
    # the bar against what is outside, relative to the centre: the last shown item's own distance from the centre
    room = bar - state.numbers[OUTSIDE] - shift
    centre = math.sqrt(whiten(state.regression.factor, state.centre, state.z[size]))
    reach = centre if bar >= 1.0 else centre + math.sqrt(state.length[size - 1])
    if reach > 0:
        drift = min(drift, room / (2 * reach))
    if bar < 1.0:
        width = state.numbers[WIDTH] * math.sqrt(state.length[size - 1])
        shrink = room / (2 * width) if width > 0 else 1.0
        limit = 0.999 * (1 / (1 - shrink) ** 2 - 1) if shrink < 1.0 else NO_LIMIT
        state.numbers[SPREAD_LIMIT] = max(0.0, min(state.numbers[SPREAD_LIMIT], limit))
    state.numbers[DRIFT_LIMIT] = min(state.numbers[DRIFT_LIMIT], max(drift, 0.0) ** 2)

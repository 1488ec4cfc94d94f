"""Examination given the clicks above: P(examined at k | ranking, clicks above k), for the models of this package.

Drawing a click at every position in turn with this probability times the attraction gives the joint distribution of the clicks.
A learner that knew the click model could compute it, so the oracle of the requests suite is given it.
"""

from __future__ import annotations

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.clicks.model import (
    BAYESIAN,
    BROWSING,
    CHAIN,
    DEPENDENT,
    DOCUMENT,
    MIXTURE,
    POSITION,
    SETWISE,
    ClickState,
)


@hot
def examined_given_clicks(state: ClickState, items: Ints, clicks: Bools, examined: Floats) -> None:
    """Fill ``examined[k]`` with P(examined at k | ranking, clicks above k)."""
    kind, table = state.kind, state.table
    reading, by_position, last = 1.0, 1.0, table.shape[1] - 1
    if kind == MIXTURE:
        by_position = table[1, 0]
    for k in range(len(items)):
        alpha = state.attraction[items[k]]
        if kind == DOCUMENT:
            examined[k] = 1.0
        elif kind == POSITION:
            examined[k] = table[0, k]
        elif kind == BROWSING:
            examined[k] = table[k, last]
            if clicks[k]:
                last = k
        elif kind == SETWISE:
            examined[k] = reading
            reading *= 1 - table[0, 0] * alpha
        elif kind == MIXTURE:
            # by_position: P(user of the first kind | clicks above); reading: 1 if a cascade user would still read
            seen = by_position * table[0, k] + (1 - by_position) * reading
            examined[k] = seen
            if clicks[k]:
                by_position = by_position * table[0, k] / seen if seen > 0 else by_position
                reading = 0.0
            else:
                first, second = by_position * (1 - table[0, k] * alpha), (1 - by_position) * (1 - reading * alpha)
                by_position = first / (first + second) if first + second > 0 else by_position
        else:
            # reading: P(still reading at k | clicks above). Without a click it falls by Bayes' rule.
            examined[k] = reading
            after_click, after_none = 0.0, 1.0
            if kind == DEPENDENT:
                after_click = table[0, k]
            elif kind == BAYESIAN:
                after_click, after_none = table[0, 0] * (1 - state.satisfaction[items[k]]), table[0, 0]
            elif kind == CHAIN:
                after_click, after_none = table[0, 1] * (1 - alpha) + table[0, 2] * alpha, table[0, 0]
            if clicks[k]:
                reading = after_click
            else:
                missed = 1 - reading * alpha
                reading = after_none * reading * (1 - alpha) / missed if missed > 0 else 0.0

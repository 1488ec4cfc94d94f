"""Lines 6-8 of RecurRank's Algorithm 1: which items a block drops, and where it is cut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Floats, Ints
from recurrank._compiled import sweep


def split(estimates: Floats, best: Ints, precision: float, elimination: str) -> list[tuple[Ints, NDArray[np.int32]]]:
    """Lines 6-8: the parts of a block with these estimates, each as the indices of its leaders in order and of all its items.

    ``best`` are the indices of the m largest estimates, in order. The proof's rule first: drop a when
    <theta_hat, a^(m) - a> >= 2 Delta, m items being that much better. Then cut where neighbours differ by 2 Delta, and
    leave out the parts that begin below the block's last position. What the proof keeps below a^(m) is within 2 Delta of
    it, and so has no cuts: only the best have to be in order.
    """
    width = len(best)
    if elimination == "proof":
        kept = np.empty(len(estimates), np.int32)
        kept = kept[: _within(estimates, estimates[best[-1]], 2 * precision, kept)]
        order = best
    else:
        order = np.argsort(-estimates, kind="stable")
    falling = estimates[order]
    cuts = np.flatnonzero(falling[:-1] - falling[1:] >= 2 * precision) + 1  # u_1, ..., u_{p-1}
    starts = [0, *(int(u) for u in cuts if u < width)]
    stops = [*(int(u) for u in cuts), len(order)]
    leaders = [order[start : min(stop, width)] for start, stop in zip(starts, stops, strict=False)]
    members = [np.sort(order[start:stop]).astype(np.int32) for start, stop in zip(starts, stops, strict=False)]
    if elimination == "proof":  # the last part has all kept items that the others do not have
        members[-1] = np.delete(kept, np.searchsorted(kept, order[: starts[-1]]))
    return list(zip(leaders, members, strict=True))


@sweep
def _within(estimates: Floats, worst_shown: float, distance: float, kept: NDArray[np.int32]) -> int:
    """Fill ``kept`` with the indices of all estimates less than the distance below a^(m)'s; return how many."""
    count = 0
    for index in range(len(estimates)):
        if worst_shown - estimates[index] < distance:
            kept[count] = index
            count += 1
    return count

"""The ranking with the most expected clicks, against which regret is measured.

The paper's A* ranks by attraction, and under its assumptions no ranking has more clicks. Click models need not satisfy them:
where an attractive item ends the search, a less attractive one may be better above it. So the best ranking follows from the
structure of each model; the ranking by attraction is returned whenever it is one of the best.

| model | how the best ranking follows |
|---|---|
| document-based, cascade, set-dependent | the order does not matter, and every attraction adds clicks |
| position-based, mixture | the rearrangement inequality: the more examined, the more attractive |
| dynamic Bayesian, click chain | ``chi(k+1) = chi(k) g(A(k))``: see :func:`_chain` |
| dependent clicks, the continuation falling or constant | by attraction: see :func:`_falls` |
| dependent clicks | clicks are affine in each attraction, so that only the K most and K least attractive items matter, |
| | and dynamic programming over sets of these: see :func:`_sets` |
| user browsing | affine as well: all rankings of these items if there are few; else branch and bound, if a recent |
| | click never lowers the examination, so that the K most attractive items are the best |
| any other | all rankings, if there are at most ``RANKINGS`` |

Otherwise it is the best of a local search, and ``exact`` is False: regret against it may be too small, or negative.

Each request has a best order (:func:`of_request`), which is computed if that takes no longer than a round: for all models but
user browsing and dependent clicks with a rising continuation. For these the order by attraction is used, which may not be best.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import compiled, hot, interpreted, rare
from recurrank.clicks import chain
from recurrank.clicks.model import BROWSING, CHAIN, DEPENDENT, MIXTURE, POSITION, ClickState

RANKINGS = 20_000
"""Up to this many rankings of any model are tried one by one."""
BROWSED = 500_000
"""Up to this many rankings of the user browsing model are tried, all at once."""
SETS = 20
"""Most items for dynamic programming over their subsets."""
BOUNDED, NODES = 12, 50_000
"""Most positions of the user browsing model for branch and bound, and its most steps."""
ROUNDING = 1e-12

EXACT, FOUND = "exact", "best found"
"""The kind of optimum that regret is measured against, as results name it."""
WARNING = "regret is against the best ranking found, which may not be the best one: it may be too small, or negative"


class Optimum(NamedTuple):
    """A best ranking.

    Attributes:
        items: in order.
        expected: clicks by position.
        exact: whether it is certain that no ranking has more.

    """

    items: Ints
    expected: Floats
    exact: bool

    @property
    def kind(self) -> str:
        """``exact`` or ``best found``."""
        return EXACT if self.exact else FOUND


def optimum(model: Any, positions: int) -> Optimum:
    """The ranking with the most expected clicks, and whether that is certain.

    >>> from recurrank.clicks import DynamicBayesian
    >>> optimum(DynamicBayesian([0.6, 0.5], satisfaction=[1.0, 0.0], continuation=1.0), 2).items.tolist()
    [1, 0]
    """
    by_attraction = model.best(positions)
    solver = _SOLVERS.get(model.name, _any)
    items, exact = solver(model, by_attraction)
    expected, attained = model.expected(items), model.expected(by_attraction)
    if attained.sum() >= expected.sum() * (1 - ROUNDING):
        items, expected = by_attraction, attained
    return Optimum(items, expected, exact)


def _by_attraction(model: Any, best: Ints) -> tuple[Ints, bool]:
    return best, True


def _position(model: Any, best: Ints) -> tuple[Ints, bool]:
    """sum_k p_k alpha(A(k)) is largest when both are in the same order."""
    ranking = np.empty_like(best)
    ranking[np.argsort(-model.examination[: len(best)], kind="stable")] = best
    return ranking, True


def _dependent(model: Any, best: Ints) -> tuple[Ints, bool]:
    onward = model.continuation[: len(best) - 1]
    if _falls(onward):
        return best, True
    candidates = _extremes(model.attraction, best)
    if len(candidates) > SETS:
        return _climb(model, best, candidates), False
    stops = np.append(1 - onward, 0.0)
    return candidates[_sets(model.attraction[candidates], stops)], True


def _falls(onward: Floats) -> bool:
    """Whether the continuation lambda never rises from a position to the next: then no ranking beats the one by attraction.

    With stops s = 1 - lambda and clicks V below, two neighbours a, b are better in this order by V (a - b) (s_{k+1} - s_k). And
    V at position k + 1 is at most 1 / s_{k+1} <= 1 / s_k (induction on V_k = a + (1 - s_k a) V_{k+1}), so that more attraction
    at position k, whose factor is 1 - s_k V_{k+1}, loses nothing.
    """
    return bool((np.diff(onward) <= 0).all())


def _bayesian(model: Any, best: Ints) -> tuple[Ints, bool]:
    return _chain(model.attraction, model.continuation * (1 - model.attraction * model.satisfaction), len(best)), True


def _click_chain(model: Any, best: Ints) -> tuple[Ints, bool]:
    r = model.attraction
    return _chain(r, interpreted(chain.onward)(r, model.alpha1, model.alpha2, model.alpha3), len(best)), True  # type: ignore


def _chain(alpha: Floats, onward: Floats, positions: int) -> Ints:
    """The best ranking where ``chi(k+1) = chi(k) g(A(k))``, with g in ``onward``.

    Of two neighbours a, b the first should be the one with the larger alpha / (1 - g), since

        alpha_a + g_a (alpha_b + g_b V) >= alpha_b + g_b (alpha_a + g_a V)   iff   alpha_a (1 - g_b) >= alpha_b (1 - g_a),

    whatever the clicks V below them. So the best ranking is in that order, and which items are in it follows from the last to
    the first: V(j) = max(V(j), alpha_a + g_a V(j - 1)).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        index = np.where(alpha > 0, alpha / (1 - onward), 0.0)
    room, chosen = Room.of(len(alpha), positions), np.empty(positions, np.int64)
    room.alpha[:], room.onward[:] = alpha, onward
    room.order[:] = np.argsort(-index, kind="stable")
    pick(room, len(alpha), positions, chosen)
    return chosen


class Room(NamedTuple):
    """Scratch memory for n items and lists of up to K; it keeps no state."""

    alpha: Floats  # (n,)
    onward: Floats  # (n,) the probability g of going on
    worth: Floats  # (n,) alpha / (1 - g)
    order: Ints  # (n,) the items, the highest index first
    value: Floats  # (K + 1,) V(j)
    taken: Bools  # (n, K + 1) whether the item tops the best list of j items among it and those after it
    list: Ints  # (K,)

    @staticmethod
    def of(items: int, positions: int) -> Room:
        """The memory for this many items and positions."""
        alpha, onward, worth = np.zeros((3, items))
        value, taken = np.zeros(positions + 1), np.zeros((items, positions + 1), np.bool_)
        return Room(alpha, onward, worth, np.zeros(items, np.int64), value, taken, np.zeros(positions, np.int64))


@rare
def pick(room: Room, items: int, positions: int, chosen: Ints) -> None:
    """The list with the most clicks whose items are in the given order; the topmost first."""
    alpha, onward, order, value, taken = room.alpha, room.onward, room.order, room.value, room.taken
    for j in range(positions + 1):
        value[j] = -np.inf if j > 0 else 0.0
    for i in range(items - 1, -1, -1):
        a = order[i]
        for j in range(positions, 0, -1):
            above = alpha[a] + onward[a] * value[j - 1]
            taken[i, j] = above > value[j]
            value[j] = max(value[j], above)
    j = positions
    for i in range(items):
        if j > 0 and taken[i, j]:
            chosen[positions - j] = order[i]
            j -= 1


BY_ATTRACTION, BY_EXAMINATION, IN_CHAIN = range(3)
"""Ways to find the best order of a request's candidates."""


def of_request(state: ClickState, positions: int) -> tuple[int, bool]:
    """The way to find the best order under this model, and whether it is certain that no order is better.

    Candidates all have the same satisfaction. Then the index of dynamic Bayesian clicks grows with the attraction, and so does
    what an item adds: more attraction is worth 1 - lambda s V, where V <= 1 / (1 - lambda (1 - s)) <= 1 / (lambda s).
    """
    if state.kind in (POSITION, MIXTURE):
        return BY_EXAMINATION, True
    if state.kind == CHAIN:
        return IN_CHAIN, True
    if state.kind == DEPENDENT:
        return BY_ATTRACTION, _falls(state.table[0, : positions - 1])
    return BY_ATTRACTION, state.kind != BROWSING


@hot
def by_examination(state: ClickState, size: int, ranking: Ints, room: Room) -> None:
    """Put the most attractive item where the examination is largest, and so on; ``ranking`` must be by attraction."""
    falls = True
    for k in range(1, size):
        falls &= state.table[0, k] <= state.table[0, k - 1]
    if falls:
        return
    for k in range(size):
        room.list[k] = ranking[k]
    for k in range(size):
        above, p = 0, state.table[0, k]
        for j in range(size):
            above += (state.table[0, j] > p) | ((state.table[0, j] == p) & (j < k))
        ranking[k] = room.list[above]


@hot
def indices(state: ClickState, items: int, room: Room) -> None:
    """Compute the indices of the current request's candidates under the click chain."""
    for a in range(items):
        r = state.attraction[a]
        g = chain.onward(r, state.table[0, 0], state.table[0, 1], state.table[0, 2])
        room.alpha[a], room.onward[a] = r, g
        room.worth[a] = 0.0 if r == 0 else r / (1 - g) if g < 1 else np.inf


def _extremes(alpha: Floats, best: Ints) -> Ints:
    """The K most and the K least attractive items.

    Where expected clicks are affine in the attraction at each position, one of the best rankings has no others: the
    item at a position can be exchanged without loss for a free item that is more attractive, or less.
    """
    worst = np.argpartition(alpha, len(best) - 1)[: len(best)]
    return np.unique(np.concatenate([best, worst]))


@compiled
def _sets(alpha: Floats, stops: Floats) -> Ints:
    """The best ranking under dependent clicks, by V(S) = max_a alpha_a + (1 - stops_k alpha_a) V(S - a) over sets below k."""
    items, positions = len(alpha), len(stops)
    value = np.full(1 << items, -1.0)
    first = np.zeros(1 << items, np.int8)
    value[0] = 0.0
    for mask in range(1, 1 << items):
        size = 0
        for a in range(items):
            size += mask >> a & 1
        if size > positions:
            continue
        for a in range(items):
            if mask >> a & 1:
                clicks = alpha[a] + (1 - stops[positions - size] * alpha[a]) * value[mask ^ (1 << a)]
                if clicks > value[mask]:
                    value[mask], first[mask] = clicks, a
    best = 0
    for mask in range(1 << items):
        size = 0
        for a in range(items):
            size += mask >> a & 1
        if size == positions and (best == 0 or value[mask] > value[best]):
            best = mask
    ranking = np.empty(positions, np.int64)
    for k in range(positions):
        ranking[k] = first[best]
        best ^= 1 << ranking[k]
    return ranking


def _browsing(model: Any, best: Ints) -> tuple[Ints, bool]:
    candidates, gamma = _extremes(model.attraction, best), model.examination
    if math.perm(len(candidates), len(best)) <= BROWSED:
        rankings = np.array(list(permutations(candidates.tolist(), len(best))))
        return rankings[np.argmax(_browsed(model.attraction[rankings], gamma))], True
    if len(best) <= BOUNDED and _recent_is_more(gamma[: len(best)]):
        order = _bounded(model.attraction[best], gamma)
        if order is not None:
            return best[order], True
    return _climb(model, best, candidates), False


def _browsed(alpha: Floats, gamma: Floats) -> Floats:
    """Expected clicks of many rankings, one per row (``browsing.py`` has the formulas)."""
    none, clicks = gamma.shape[1] - 1, np.zeros(len(alpha))
    last = np.zeros((len(alpha), gamma.shape[1]))
    last[:, none] = 1.0
    for k in range(alpha.shape[1]):
        columns = [*range(k), none]
        clicked = (last[:, columns] * gamma[k, columns]).sum(axis=1) * alpha[:, k]
        last[:, columns] *= 1 - gamma[k, columns] * alpha[:, [k]]
        if k < none:
            last[:, k] = clicked
        clicks += clicked
    return clicks


def _recent_is_more(gamma: Floats) -> bool:
    """Whether a more recent click never lowers the examination: then the K most attractive items are the best to show."""
    none = gamma.shape[1] - 1
    rows = [np.append(gamma[k, none], gamma[k, :k]) for k in range(len(gamma))]
    return all((np.diff(row) >= 0).all() for row in rows)


def _bounded(alpha: Floats, gamma: Floats) -> list[int] | None:
    """The best order of these items by branch and bound; None if that takes more than ``NODES`` steps."""
    positions, none = len(alpha), gamma.shape[1] - 1
    bound = _adaptive(alpha, gamma)
    best = list(range(positions))
    most, steps = float(_browsed(alpha[None], gamma)[0]), 0
    waiting: list[tuple[int, dict[int, float], float, list[int]]] = [
        ((1 << positions) - 1, {none: 1.0}, 0.0, [])
    ]  # items left, distribution of the last click, clicks so far, ranking
    while waiting:
        left, last, clicks, ranking = waiting.pop()
        steps += 1
        if steps > NODES:
            return None
        k = len(ranking)
        if k == positions and clicks > most:
            most, best = clicks, ranking
        for a in range(positions):
            if left >> a & 1:
                below, rest = {j: p * (1 - gamma[k, j] * alpha[a]) for j, p in last.items()}, left ^ (1 << a)
                clicked = alpha[a] * sum(p * gamma[k, j] for j, p in last.items())
                if k < none:
                    below[k] = clicked
                if clicks + clicked + sum(p * bound[rest][j] for j, p in below.items()) > most * (1 + ROUNDING):
                    waiting.append((rest, below, clicks + clicked, [*ranking, a]))
    return best


def _adaptive(alpha: Floats, gamma: Floats) -> dict[int, dict[int, float]]:
    """Clicks if each of these items could be chosen after seeing where the last click was, by items left and last click.

    No ranking has more, since a ranking chooses without seeing.
    """
    positions, none = len(alpha), gamma.shape[1] - 1
    value = {0: dict.fromkeys([*range(positions), none], 0.0)}
    for left in sorted(range(1, 1 << positions), key=int.bit_count):
        k = positions - left.bit_count()
        rest = [(float(alpha[a]), value[left ^ (1 << a)]) for a in range(positions) if left >> a & 1]
        value[left] = {
            j: max(below[j] + gamma[k, j] * r * (1 + below.get(k, 0.0) - below[j]) for r, below in rest)
            for j in [*range(k), none]
        }
    return value


def _any(model: Any, best: Ints) -> tuple[Ints, bool]:
    items = len(model.attraction)
    if math.perm(items, len(best)) <= RANKINGS:
        rankings = permutations(range(items), len(best))
        return np.array(max(rankings, key=lambda ranking: model.expected(ranking).sum()), np.int64), True
    return _climb(model, best, _extremes(model.attraction, best)), False


def _climb(model: Any, best: Ints, candidates: Ints) -> Ints:
    """Local search from the ranking by attraction: replace one item or exchange two while that gains clicks."""
    current, clicks = best, model.expected(best).sum()
    while True:
        near = [_with_item(current, k, a) for k in range(len(best)) for a in candidates]
        values = [model.expected(ranking).sum() for ranking in near]
        top = int(np.argmax(values))
        if values[top] <= clicks * (1 + ROUNDING):
            return current
        current, clicks = near[top], values[top]


def _with_item(ranking: Ints, k: int, item: int) -> Ints:
    """The ranking with the item at position k; if the item was in it already, the two are exchanged."""
    changed = ranking.copy()
    changed[ranking == item] = ranking[k]
    changed[k] = item
    return changed


_SOLVERS = {
    "document-based": _by_attraction,
    "cascade": _by_attraction,
    "position-based": _position,
    "dependent-click": _dependent,
    "dynamic-bayesian": _bayesian,
    "click-chain": _click_chain,
    "user-browsing": _browsing,
    "mixture": _position,
    "set-dependent": _by_attraction,
}

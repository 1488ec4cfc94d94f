"""The rounds of :mod:`recurrank.rankers.anchored`, compiled: its state, and what ranks and learns."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, rare
from recurrank.rankers.engines.requests import (
    EXPLOITED,
    INSURED,
    LOGISTIC,
    SAMPLED,
    Shown,
    Work,
    attraction,
    best,
    disputed,
    dot,
    learn_of_catalogue,
    scores,
    usable,
)
from recurrank.rankers.ranker import Buffer

EXPLORE, PAY = 0.2, 0.025
"""The share of rounds that explore, and the share of a possible loss that they pay in."""
LEAST_CLICKS, MOST_CLICKS = 0.02, 0.9
"""The least and the largest probability of a click that variances are computed from."""
ANSWERS, NEXT, KEPT, AGAIN, ESTIMATED = 0, 1, 2, 3, 4
CONSTANT, LINK, TOLD, DISCOUNT = 0, 1, 2, 3


class Kept(NamedTuple):
    """The first answers of a logistic ranker, so that they can be linearised anew."""

    rows: Floats  # (R, K, d) features of what was shown
    stratum: Ints  # (R, K) -1 where nothing was learned
    clicks: Bools  # (R, K)
    examined: Floats  # (R, K) P(examined | slate, clicks above) where it is told, else 1


class Menu(NamedTuple):
    """What requests for the whole catalogue can be shown until the next estimate; items are indices of the catalogue."""

    order: Ints  # (K,) the best by theta
    sampled: Ints  # (S, K) the best by each sample
    item: Ints  # (S,) the item that each doubt disputes, or -1
    place: Ints  # (S,) its index in the order
    gain: Floats  # (S,) what each doubt pays into the account
    price: Floats  # (S,) what showing the disputed item first costs

    @staticmethod
    def of(samples: int, positions: int) -> Menu:
        count, whole = np.zeros(samples), np.zeros(samples, np.int64)
        sampled = np.zeros((samples, positions), np.int64)
        return Menu(np.zeros(positions, np.int64), sampled, whole, whole.copy(), count, count.copy())


class State(NamedTuple):
    """G strata, S samples; nothing depends on the number of items but their features.

    With a discount, an answer counts discount^-n where n answers have come since the last estimate, which multiplies all by
    discount^n: the newest then counts 1, the one before it discount, and so on. So do moments and sums, and what is counted by
    position.
    """

    features: Floats  # (L, d) of the catalogue
    short: Ints  # (M,) the items of the catalogue that matter until the next estimate
    theta: Floats  # (D,) the constant's coefficient first
    samples: Floats  # (S, D) of theta's posterior
    doubts: Floats  # (S, D) of the anchor's
    moments: Floats  # (G, P, P) lower triangles of V_g
    sums: Floats  # (G, P) b_g
    scale: Floats  # (G,) s_g
    worth: Floats  # (K,) W_k
    shown: Floats  # (K,) predicted attraction shown at each position
    clicks: Floats  # (K,)
    answered: Floats  # (K,) answers in which each position showed an item that was not pinned
    cuts: Floats  # (K, 3) where thirds of the summed attraction above begin, and its mean
    account: Floats  # (1,)
    numbers: Floats  # (4,) the constant feature, the link, whether P(examined | slate, clicks above) is told, the discount
    clock: Ints  # (5,) answers; those at the next estimate; kept; at the next linearisation; at the last estimate
    kept: Kept
    menu: Menu
    work: Work


@inner
def _stratum(positions: int, segment: int, k: int, last: int, third: int) -> int:
    """Position k has k + 1 cells, by the last click above (-1: none), of three thirds each."""
    return ((segment * positions * (positions + 1) + k * (k + 1)) // 2 + last + 1) * 3 + third


@hot
def choose(
    state: State, rng: np.random.Generator, features: Floats, rows: Ints, count: int, slots: Ints, explore: float, chosen: Ints
) -> tuple[int, float]:
    """Fill ``chosen`` with the candidates for the free positions ``slots``; return what was done, and its cost.

    ``chosen`` has indices of candidates; their features are ``rows`` of a matrix.
    """
    _order(state, features, rows, count, len(slots))
    done, price = EXPLOITED, 0.0
    if rng.random() < EXPLORE * explore:
        s = int(rng.random() * state.samples.shape[0])
        done, gain, price = _explore(state, s, features, rows, count, slots, state.account[0])
        state.account[0] += gain
        state.account[0] -= price
    for j in range(len(slots)):
        chosen[j] = state.work.order[j] if done == EXPLOITED else state.work.tried[j]
    return done, price


@inner
def _order(state: State, features: Floats, rows: Ints, count: int, size: int) -> None:
    """Fill ``work.order`` with the best candidates by theta."""
    scores(features, rows, count, state.theta, state.numbers[CONSTANT], state.work.score)
    best(state.work.score, count, size, state.work.order, state.work)


@rare
def _explore(
    state: State, s: int, features: Floats, rows: Ints, count: int, slots: Ints, account: float
) -> tuple[int, float, float]:
    """Fill ``work.tried`` with what the s-th samples show instead of ``work.order``; return what is done, paid in and spent."""
    work, size, constant = state.work, len(slots), state.numbers[CONSTANT]
    gain, y, index, price = _bid(state, s, features, rows, count, slots)
    if y >= 0 and slots[0] == 0 and account + gain >= price:
        for j in range(size):
            work.tried[j] = insured(work.order, y, index, j)
        return INSURED, gain, price
    scores(features, rows, count, state.samples[s], constant, work.other)
    best(work.other, count, size, work.tried, work)
    return SAMPLED, gain, 0.0


@inner
def _bid(state: State, s: int, features: Floats, rows: Ints, count: int, slots: Ints) -> tuple[float, int, int, float]:
    """What the s-th doubt pays into the account, the candidate it disputes, its index in the order, and its price."""
    work = state.work
    scores(features, rows, count, state.doubts[s], state.numbers[CONSTANT], work.other)
    best(work.other, count, len(slots), work.rival, work)
    loss, y, index, price = disputed(
        work.order, work.rival, work.score, work.other, state.worth, slots, len(slots), int(state.numbers[LINK])
    )
    return PAY * loss, y, index, price


@inner
def insured(order: Ints, y: int, index: int, j: int) -> int:
    """The candidate at position j if y, which was at ``index`` of the order or below, is shown first."""
    if j == 0:
        return y
    return int(order[j - 1] if j <= index else order[j])


@hot
def take(state: State, shown: Shown, clicks: Bools) -> bool:
    """Learn from the clicks on a slate. True when it is time to estimate."""
    positions = len(state.worth)
    link, constant, dim = int(state.numbers[LINK]), state.numbers[CONSTANT], shown.features.shape[1]
    last, above, answers = -1, 0.0, state.clock[ANSWERS]
    rates = 0.05 / math.sqrt(1 + 0.01 * answers), 1 / min(answers + 1, 1000)
    keep, unit = state.clock[KEPT] if state.clock[KEPT] < len(state.kept.clicks) else -1, 1.0
    if state.numbers[DISCOUNT] < 1:
        unit = state.numbers[DISCOUNT] ** (state.clock[ESTIMATED] - answers - 1.0)
    for k in range(len(clicks)):
        sound = usable(shown.features, k)
        score = dot(shown.features, k, state.theta, constant) if sound else 0.0
        mu = max(attraction(score, link), 0.0)
        learned = sound and shown.free[k]
        third = _third(state, k, above, rates)
        g, examined = _stratum(positions, shown.segment, k, last, third), 1.0
        if state.numbers[TOLD] > 0:
            g, examined = 0, shown.examined[k]
        if learned:
            _add(state, shown.features, k, g, score, mu, clicks[k], examined, unit, unit)  # weighted by earlier clicks alone
            state.shown[k] += unit * mu
            state.clicks[k] += unit * clicks[k]
            state.answered[k] += unit
        if keep >= 0:
            state.kept.stratum[keep, k] = g if learned else -1
            state.kept.clicks[keep, k], state.kept.examined[keep, k] = clicks[k], examined
            for p in range(dim):
                state.kept.rows[keep, k, p] = shown.features[k, p]
        above += mu
        if clicks[k]:
            last = k
    if keep >= 0:
        for k in range(len(clicks), positions):
            state.kept.stratum[keep, k] = -1
        state.clock[KEPT] += 1
    state.clock[ANSWERS] += 1
    return bool(state.clock[ANSWERS] >= state.clock[NEXT])


@inner
def _third(state: State, k: int, above: float, rates: tuple[float, float]) -> int:
    """Which third the summed attraction above lies in; the thirds' limits and the mean follow what is shown, at these rates."""
    if k == 0:
        return 0
    cuts = state.cuts
    third = int(above > cuts[k, 0]) + int(above > cuts[k, 1])
    # q_h += step (h - 1{above < q_h}): the h-quantile by stochastic approximation
    step = rates[0] * max(cuts[k, 2], 1e-3)
    for h in range(2):
        cuts[k, h] += step * ((h + 1) / 3 - (1.0 if above < cuts[k, h] else 0.0))
    cuts[k, 2] += (above - cuts[k, 2]) * rates[1]
    return third


@inner
def _add(
    state: State, features: Floats, k: int, g: int, score: float, mu: float, clicked: bool, examined: float,
    unit: float, weight: float,
) -> None:  # fmt: skip
    """V_g += w y y', b_g += w y click;  y = x, or where attraction is logistic (o, f) = (mu - f'theta, mu (1 - mu) x).

    y is multiplied by ``examined``, the told probability of examination, or 1. A new answer counts ``unit``, this one
    ``weight``.
    """
    y, size = state.work.row, state.work.row.shape[0]
    # w = weight / p (1 - p),  p = max(s_g mu, half the click rate of k, 0.02), the rate beginning at 1/5; at most 0.9
    rate = (state.clicks[k] + 2 * unit) / (state.answered[k] + 10 * unit)
    p = min(max(state.scale[g] * examined * mu, 0.5 * rate, LEAST_CLICKS), MOST_CLICKS)
    w = weight / (p * (1 - p))
    slope, start = examined, 0
    if int(state.numbers[LINK]) == LOGISTIC:
        slope, start = examined * mu * (1 - mu), 1
        y[0] = examined * mu - slope * score
    y[start] = slope * state.numbers[CONSTANT]
    for i in range(features.shape[1]):
        y[start + 1 + i] = slope * features[k, i]
    moments, sums = state.moments, state.sums
    for i in range(size):
        wi = w * y[i]
        for j in range(i + 1):
            moments[g, i, j] += wi * y[j]
        if clicked:
            sums[g, i] += wi


@hot
def again(state: State) -> None:
    """Linearise the kept answers anew, at the present theta; no other answers have come yet."""
    state.moments[:] = 0.0
    state.sums[:] = 0.0
    link, constant = int(state.numbers[LINK]), state.numbers[CONSTANT]
    for r in range(state.clock[KEPT]):
        weight = state.numbers[DISCOUNT] ** (state.clock[KEPT] - 1.0 - r)
        for k in range(state.kept.stratum.shape[1]):
            g = state.kept.stratum[r, k]
            if g >= 0:
                score = dot(state.kept.rows[r], k, state.theta, constant)
                mu, examined = attraction(score, link), state.kept.examined[r, k]
                _add(state, state.kept.rows[r], k, g, score, mu, state.kept.clicks[r, k], examined, 1.0, weight)


@hot
def foresee(state: State) -> None:
    """Fill ``menu`` with all that requests for the whole catalogue can be shown until the next estimate, and at what price."""
    menu, work, short, positions = state.menu, state.work, state.short, len(state.worth)
    slots = work.every[:positions]
    _order(state, state.features, short, len(short), positions)
    for k in range(positions):
        menu.order[k] = short[work.order[k]]
    for s in range(state.samples.shape[0]):
        gain, y, index, price = _bid(state, s, state.features, short, len(short), slots)
        menu.item[s], menu.place[s], menu.gain[s], menu.price[s] = short[y] if y >= 0 else -1, index, gain, price
        scores(state.features, short, len(short), state.samples[s], state.numbers[CONSTANT], work.other)
        best(work.other, len(short), positions, work.tried, work)
        for k in range(positions):
            menu.sampled[s, k] = short[work.tried[k]]


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    """A slate of the whole catalogue, as :func:`choose` would choose it from all items."""
    menu, before, done, s = state.menu, state.account[0], EXPLOITED, 0
    if rng.random() < EXPLORE:
        s = int(rng.random() * state.samples.shape[0])
        state.account[0] += menu.gain[s]
        done = _pays(state, s, state.account[0])
        if done == INSURED:
            state.account[0] -= menu.price[s]
    for k in range(len(slate.items)):
        slate.items[k] = _outcome(state, done, s, k)
    slate.marks[0, 0] = done
    slate.marks[0, 1] = np.float64(state.account[0] - before).view(np.int64)


@inner
def _pays(state: State, s: int, account: float) -> int:
    return INSURED if state.menu.item[s] >= 0 and account >= state.menu.price[s] else SAMPLED


@inner
def _outcome(state: State, done: int, s: int, k: int) -> int:
    menu = state.menu
    if done == EXPLOITED:
        return int(menu.order[k])
    return insured(menu.order, menu.item[s], menu.place[s], k) if done == INSURED else int(menu.sampled[s, k])


@hot
def recall(state: State, before: Floats) -> None:
    """Drawing changes the account and nothing else."""
    before[0] = state.account[0]


@hot
def propensity(state: State, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """How probable a slate of the whole catalogue was; exact, as that of a request is (``anchored_requests.answer``)."""
    samples, joint = state.samples.shape[0], 0.0
    for k in range(len(marginal)):
        marginal[k] = 0.0
    for s in range(-1, samples):
        done = EXPLOITED if s < 0 else _pays(state, s, before[0] + state.menu.gain[s])
        share, same = 1 - EXPLORE if s < 0 else EXPLORE / samples, True
        for k in range(len(marginal)):
            if _outcome(state, done, s, k) == slate.items[k]:
                marginal[k] += share
            else:
                same = False
        joint += share if same else 0.0
    return joint


learn = learn_of_catalogue(take)


@hot
def served(state: State, slate: Buffer) -> None:
    """A copy has served this slate: the account changes as the copy's did."""
    state.account[0] += np.int64(slate.marks[0, 1]).view(np.float64)

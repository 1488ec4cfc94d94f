"""Ranked Bandits: Radlinski, Kleinberg, Joachims, *Learning Diverse Rankings with Multi-Armed Bandits* (ICML 2008).

| paper                         | code                                                                      |
|-------------------------------|---------------------------------------------------------------------------|
| MAB_i, one per rank           | row i of every array of ``State``                                         |
| b_hat_i, what MAB_i selects   | ``slate.marks[i, 0]``                                                     |
| b_i, what is shown            | b_hat_i, or a random other item if that is shown above already            |
| f_it                          | 1 if b_i was clicked and is b_hat_i, else 0: the reward of MAB_i for b_hat_i |

Each bandit is UCB1 (Auer et al. 2002: mean + sqrt(2 log t / n)), KL-UCB (log t + 3 log log t) or Exp3 (Auer et al. 2002).
Every position has a bandit of its own, so it believes nothing about the items above. Its guarantee, for Exp3, is against the
best (1 - 1/e) share of what any ranking gets, also when users are not stochastic. No features.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.cascade_ucb import kl_level
from recurrank.rankers.engines.divergence import kl
from recurrank.rankers.engines.optimism import kl_upper
from recurrank.rankers.engines.propensity import UNKNOWN
from recurrank.rankers.engines.tournament import AHEAD, LEVEL, MARGIN, TRACKED, Arms, X, in_blocks, no_arms, tournament
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

UCB1, KLUCB, EXP3 = 0, 1, 2
KINDS = {"ucb1": UCB1, "klucb": KLUCB, "exp3": EXP3}
KIND, ITEMS, CLOCK = 0, 1, 2
SPAN = 128
"""Number of rounds from one look at all arms to the next."""
HUGE = 1e100


class Weights(NamedTuple):
    """The weights of Exp3, in blocks, so that a draw looks at about 2 sqrt(L) numbers; zeros fill up the last block."""

    each: Floats  # (K, B, S)
    block: Floats  # (K, B) their sums


class State(NamedTuple):
    arms: Arms  # of UCB1 and KL-UCB
    weights: Weights
    constants: Floats  # (1,) of the index: 2 for UCB1, 3 for KL-UCB; gamma for Exp3
    counts: Ints  # (3,) which bandit, L, and slates served


# UCB1: s / n + sqrt(level / n), level = 2 log t: a line in x = sqrt(level).


@inner
def _ucb1_index(seen: int, clicks: int, level: float) -> float:
    return clicks / seen + math.sqrt(level / seen)


@inner
def _ucb1_line(seen: int, clicks: int, level: float, hint: float) -> tuple[float, float]:
    return clicks / seen, 1 / math.sqrt(seen)


@inner
def _ucb1_reaches(seen: int, clicks: int, level: float, q: float) -> bool:
    return True  # the line is the index, but for rounding


# KL-UCB: max { q : n kl(s / n, q) <= level }, level = log t + 3 log log t: concave in x = level.


@inner
def _kl_index(seen: int, clicks: int, level: float) -> float:
    return kl_upper(clicks / seen, level / seen)


@inner
def _kl_line(seen: int, clicks: int, level: float, hint: float) -> tuple[float, float]:
    """A tangent: kl(p, .) is convex, so for any q, n (kl + (index - q) kl') <= level, where kl' = (q - p) / (q (1 - q)).

    Its value now is the next q of Newton's method; so its error is of the order of the square of the last step.
    """
    p, q = clicks / seen, hint
    for turn in range(4):
        if turn == 3 or not p + 1e-9 < q < 1.0:  # the hint was not close
            q = _kl_index(seen, clicks, level)
            if q >= 1.0:
                return 1.0, 0.0
            if q <= p + 1e-9:  # too steep to be of use
                return 2.0, 0.0
        inverse = q * (1 - q) / (q - p)
        base, rise = q - kl(p, q) * inverse, inverse / seen
        step = base + rise * level - q
        if abs(step) < 1e-4 * (1 - q):
            break
        q += step
    return base, rise


@inner
def _kl_reaches(seen: int, clicks: int, level: float, q: float) -> bool:
    p = clicks / seen
    return bool(q <= p or (q < 1.0 and seen * kl(p, q) <= level))


_ucb1_best, _ucb1_observe, _ucb1_play = tournament(_ucb1_index, _ucb1_line, _ucb1_reaches)
_kl_best, _kl_observe, _kl_play = tournament(_kl_index, _kl_line, _kl_reaches)


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    state.counts[CLOCK] += 1
    if state.counts[KIND] != EXP3:
        _keep_time(state)
    for k in range(len(slate.items)):
        item = _select(state, rng, k)
        slate.marks[k, 0] = item
        while _shown(slate, k, item):  # a random item that is not shown above
            item = int(rng.random() * state.counts[ITEMS])
        slate.items[k] = item


@hot
def served(state: State, slate: Buffer) -> None:
    state.counts[CLOCK] += 1
    if state.counts[KIND] != EXP3:
        state.arms.times[LEVEL], state.arms.times[X] = _moment(state, state.counts[CLOCK])


@hot
def propensity(state: State, before: Floats, slate: Buffer, marginal: Floats) -> float:
    """The product of what each bandit does given the items above: it chooses x, or one of them, and x is drawn instead.

    The marginal probability below a random choice is a sum over all that might be above: it has no closed form.
    """
    items, joint = state.counts[ITEMS], 1.0
    for k in range(len(marginal)):
        chosen, above = _chance(state, slate, k, slate.items[k]), 0.0
        for other in range(k):
            above += _chance(state, slate, k, slate.items[other])
        given = chosen + above / (items - k)
        marginal[k] = given if joint == 1.0 else UNKNOWN
        joint *= given
    return joint


@inner
def _chance(state: State, slate: Buffer, k: int, item: int) -> float:
    """The probability that the bandit of position k chooses an item."""
    if state.counts[KIND] != EXP3:
        return 1.0 if slate.marks[k, 0] == item else 0.0
    each, block = state.weights.each[k], state.weights.block[k]
    b = item // each.shape[1]
    share = each[b, item - b * each.shape[1]] / _total(block)
    return float(state.constants[0] / state.counts[ITEMS] + (1 - state.constants[0]) * share)


@inner
def _keep_time(state: State) -> None:
    """Set what the indices of this round depend on; at times, play the blocks of all arms for the coming rounds.

    That happens every SPAN rounds, and when slates served by copies took it beyond the rounds that were played for.
    """
    t, arms = state.counts[CLOCK], state.arms
    times = arms.times
    times[LEVEL], times[X] = _moment(state, t)
    if t % SPAN == 1 or times[X] > times[AHEAD]:
        times[AHEAD] = _moment(state, t + SPAN)[1]
        # The order of magnitude by which a tangent of KL-UCB, made when all arms were last chosen, is too high; UCB1 has none.
        times[MARGIN] = min(1e-4 * (state.counts[ITEMS] / t) ** 2, 1e-2) if state.counts[KIND] == KLUCB else 0.0
        for k in range(arms.leader.shape[0]):
            for b in range(arms.leader.shape[1]):
                _play(state, k, b)


@inner
def _moment(state: State, t: int) -> tuple[float, float]:
    """The level of the indices, and the coordinate in which they grow like lines."""
    if state.counts[KIND] == UCB1:
        level = state.constants[0] * math.log(t)
        return level, math.sqrt(level)
    level = kl_level(t, state.constants[0])
    return level, level


@inner
def _play(state: State, k: int, b: int) -> None:
    if state.counts[KIND] == UCB1:
        _ucb1_play(state.arms, k, b)
    else:
        _kl_play(state.arms, k, b)


@inner
def _shown(slate: Buffer, k: int, item: int) -> bool:
    shown = False
    for above in range(k):
        shown |= slate.items[above] == item
    return shown


@inner
def _select(state: State, rng: np.random.Generator, k: int) -> int:
    if state.counts[KIND] == UCB1:
        return _ucb1_best(state.arms, k)
    if state.counts[KIND] == KLUCB:
        return _kl_best(state.arms, k)
    if rng.random() < state.constants[0]:
        return int(rng.random() * state.counts[ITEMS])
    return _draw(state.weights, rng, k, state.counts[ITEMS])


@inner
def _draw(weights: Weights, rng: np.random.Generator, k: int, items: int) -> int:
    """An item with probability w_i / W: the block first."""
    each, block = weights.each[k], weights.block[k]
    at, b = rng.random() * _total(block), 0
    while b < len(block) - 1 and at >= block[b]:
        at -= block[b]
        b += 1
    i = 0
    while i < each.shape[1] - 1 and at >= each[b, i]:
        at -= each[b, i]
        i += 1
    return int(min(b * each.shape[1] + i, items - 1))


@inner
def _total(numbers: Floats) -> float:
    total = 0.0
    for i in range(len(numbers)):
        total += numbers[i]
    return total


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        chosen = slate.marks[k, 0]
        rewarded = bool(clicks[k] and slate.items[k] == chosen)
        if state.counts[KIND] == UCB1:
            _ucb1_observe(state.arms, k, chosen, rewarded)
        elif state.counts[KIND] == KLUCB:
            _kl_observe(state.arms, k, chosen, rewarded)
        elif rewarded:
            _reinforce(state.weights, k, chosen, state.constants[0], state.counts[ITEMS])
    if state.counts[KIND] != EXP3:
        for k in range(len(clicks)):  # in a loop of its own: by now the numbers just written can be read without waiting
            _play(state, k, slate.marks[k, 0] // state.arms.base.shape[2])
    return False


@inner
def _reinforce(weights: Weights, k: int, chosen: int, gamma: float, items: int) -> None:
    """w_i <- w_i exp(gamma / (p_i L)) after a reward of 1, where p_i = (1 - gamma) w_i / W + gamma / L."""
    each, block = weights.each[k], weights.block[k]
    b, i = divmod(chosen, each.shape[1])
    p = (1 - gamma) * each[b, i] / _total(block) + gamma / items
    each[b, i] *= math.exp(gamma / (p * items))
    block[b] = _total(each[b])
    if each[b, i] > HUGE:  # only ratios matter
        for a in range(len(block)):
            for j in range(each.shape[1]):
                each[a, j] /= HUGE
            block[a] = _total(each[a])


class RankedBandits(Ranker):
    """Ranked Bandits (Radlinski, Kleinberg, Joachims 2008): one bandit per position."""

    name = "ranked-bandits"
    reference = "Radlinski, Kleinberg, Joachims 2008"
    believes = "document-based, one bandit per position"
    uses_features = False
    regret_bound = "O(K sqrt(L T log(L))) against (1 - 1/e) of the best, with Exp3"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = propensity
    tracked = TRACKED

    @classmethod
    def takes_any_slate(cls) -> bool:
        return False  # what each bandit chose is in the slate's marks

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        inside: Annotated[Literal["ucb1", "klucb", "exp3"], Option("the bandit at each position")] = "ucb1",
        exploration: Annotated[
            float | None,
            Option(
                "the 2 of UCB1, the 3 of KL-UCB, or Exp3's gamma, by default sqrt(L log L / ((e - 1) T)), at most 1", least=0
            ),
        ] = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        items, size = len(self.catalogue), self.positions
        if exploration is None:
            rate = min(1.0, math.sqrt(items * math.log(max(items, 2)) / ((math.e - 1) * self.rounds)))
            exploration = {"ucb1": 2.0, "klucb": 3.0}.get(inside, rate)
        inside, constant = self.record(inside=inside, exploration=exploration)
        if inside == "exp3" and not 0 < constant <= 1:
            raise ValueError(f"exploration: {constant} is out of range; give Exp3 a gamma above 0 and at most 1")
        arms = no_arms(1 if inside == "exp3" else size, items)
        each = np.zeros((size if inside == "exp3" else 1, *in_blocks(items)))
        each.reshape(len(each), -1)[:, :items] = 1.0
        weights = Weights(each, each.sum(axis=2))
        self.state = State(arms, weights, np.array([constant]), np.array([KINDS[inside], items, 0]))


register(State, RankedBandits)

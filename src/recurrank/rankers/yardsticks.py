"""Yardsticks: a random ranking, the best one, and epsilon-greedy. No paper, no guarantee; to measure others by.

random          a uniformly random ranking each round; regret grows linearly.
oracle          the ranking by the true attraction, which it is given; regret is zero.
epsilon-greedy  with probability epsilon a random ranking, else the K items with the highest share of clicks so far
                (every shown position counts, items never shown come first).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.rankers.cascade_ucb import show
from recurrank.rankers.engines.optimism import Beliefs, crowded, no_beliefs, observe, same_counts, selector
from recurrank.rankers.engines.propensity import certain, exactly, uniform
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, nothing_served, register


class RandomState(NamedTuple):
    order: Ints  # (L,) some order of the items


class OracleState(NamedTuple):
    best: Ints  # (K,)


class GreedyState(NamedTuple):
    beliefs: Beliefs
    order: Ints  # (L,)
    epsilon: Floats  # (1,)


@inner
def shuffle_top(order: Ints, rng: np.random.Generator, slate: Buffer) -> None:
    """Show the first K items of a fresh shuffle of all items."""
    for k in range(len(slate.items)):
        j = k + int(rng.random() * (len(order) - k))
        order[k], order[j] = order[j], order[k]
        slate.items[k] = order[k]


@hot
def random_rank(state: RandomState, rng: np.random.Generator, slate: Buffer) -> None:
    shuffle_top(state.order, rng, slate)


@hot
def random_propensity(state: RandomState, before: Floats, slate: Buffer, marginal: Floats) -> float:
    return uniform(len(state.order), slate, marginal)


@hot
def nothing_learned(state: RandomState, slate: Buffer, clicks: Bools) -> bool:
    return False


@hot
def oracle_rank(state: OracleState, rng: np.random.Generator, slate: Buffer) -> None:
    for k in range(len(slate.items)):
        slate.items[k] = state.best[k]


@inner
def share_of_clicks(state: GreedyState, item: int, f: float) -> tuple[float, float]:
    seen = state.beliefs.seen[item]
    return (np.inf, 0.0) if seen == 0 else (state.beliefs.clicks[item] / seen, 0.0)


choose = selector(share_of_clicks, same_counts)


@hot
def greedy_rank(state: GreedyState, rng: np.random.Generator, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    if rng.random() < state.epsilon[0]:
        shuffle_top(state.order, rng, slate)
        return
    choose(state, state.beliefs, 0.0)  # shares do not grow with time
    show(state.beliefs, slate)


@hot
def greedy_served(state: GreedyState, slate: Buffer) -> None:
    state.beliefs.clock[0] += 1
    if crowded(state.beliefs):
        choose(state, state.beliefs, 0.0)


@hot
def greedy_propensity(state: GreedyState, before: Floats, slate: Buffer, marginal: Floats) -> float:
    choose(state, state.beliefs, 0.0)  # what it would have shown, also where it did not
    epsilon, best = state.epsilon[0], state.beliefs.best
    joint = epsilon * uniform(len(state.order), slate, marginal)
    for k in range(len(marginal)):
        marginal[k] = epsilon * marginal[k] + (1 - epsilon) * (slate.items[k] == best[k])
    return float(joint + (1 - epsilon) * exactly(best, slate))


@hot
def greedy_learn(state: GreedyState, slate: Buffer, clicks: Bools) -> bool:
    for k in range(len(clicks)):
        observe(state.beliefs, slate.items[k], clicks[k])
    return False


class Random(Ranker):
    """A uniformly random ranking each round."""

    name = "random"
    reference = "a yardstick"
    believes = "nothing"
    uses_features = False
    regret_bound = "linear in T"
    compiled_rank = random_rank
    compiled_learn = nothing_learned
    compiled_served = nothing_served
    compiled_propensity = random_propensity

    def __init__(self, features: Items, positions: int, rounds: int, seed: Seed = None) -> None:
        super().__init__(features, positions, rounds, seed)
        self.state = RandomState(np.arange(len(self.catalogue)))


class Oracle(Ranker):
    """The ranking by the true attraction, ties by item index."""

    name = "oracle"
    reference = "a yardstick"
    believes = "the truth, which it is told"
    uses_features = False
    regret_bound = "0"
    compiled_rank = oracle_rank
    compiled_learn = nothing_learned
    compiled_served = nothing_served
    not_served = "has to know the truth"
    compiled_propensity = certain

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        attraction: Annotated[ArrayLike, Option("the truth, one number per item", least=0, most=1, per="item", told=True)],
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        [truth] = self.record(attraction=attraction)
        self.state = OracleState(np.argsort(-truth, kind="stable")[: self.positions].astype(np.int64))


class EpsilonGreedy(Ranker):
    """Epsilon-greedy on the share of clicks of each item, whatever its position."""

    name = "epsilon-greedy"
    reference = "a yardstick"
    believes = "document-based"
    uses_features = False
    regret_bound = "linear in T"
    compiled_rank = greedy_rank
    compiled_learn = greedy_learn
    compiled_served = greedy_served
    compiled_propensity = greedy_propensity

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        epsilon: Annotated[float, Option("how often to show a random ranking", least=0, most=1)] = 0.1,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        items = len(self.catalogue)
        self.state = GreedyState(no_beliefs(items, self.positions), np.arange(items), np.array(self.record(epsilon=epsilon)))


register(RandomState, Random)
register(OracleState, Oracle)
register(GreedyState, EpsilonGreedy)

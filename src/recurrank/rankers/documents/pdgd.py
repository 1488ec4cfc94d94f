"""PDGD, pairwise differentiable gradient descent (Oosterhuis, de Rijke 2018, Algorithm 1).

A slate is drawn from the Plackett-Luce model of the scores: each position's document by softmax over those that are left.
Clicks give preferences: a clicked document over every unclicked one down to the first below the last click, as in the authors'
code (the paper's words: over those above it, and the next one). The gradient of
P(d > d') = sigma(f(d) - f(d')) is summed over the preferred pairs, each weighted by how probable the slate with the two
documents exchanged would have been, which takes out the bias of what was shown where:

    theta += eta sum rho sigma(s - s') sigma(s' - s) (x - x'),    rho = P(R*) / (P(R) + P(R*))

| paper                       | code                                             |
|-----------------------------|--------------------------------------------------|
| theta                       | ``State.theta[1:]``                              |
| eta                         | ``State.numbers[RATE]``                          |
| f(d_k), the score           | ``State.memory[k, SCORE]``                       |
| log sum exp f(d) of the documents left at k | ``State.memory[k, MASS]``        |
| R, R* (two exchanged), rho  | the slate; :func:`reversal`                      |

The draw adds Gumbel noise to the scores and takes the K highest, which has the same distribution as K draws by softmax. In
P(R*) / P(R) all factors cancel but the normalisers between the two documents, so that rho costs a few operations.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.catalogue import Catalogue
from recurrank.rankers.documents.ranker import DocumentRanker, register
from recurrank.rankers.engines.requests import EXPLOITED, SAMPLED, Shown, Work, best, scores
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Seed
from recurrank.rankers.request_ranker import ContextSize, Dim, Interactions

SCORE, MASS = 0, 1
RATE, DECAY = 0, 1


class State(NamedTuple):
    """A ranking function, and how the present slate was drawn."""

    features: Floats  # (L, d) of the catalogue
    short: Ints  # unused
    account: Floats  # unused
    theta: Floats  # (d + 1,) the first is 0
    memory: Floats  # (K, 2) score and log mass by position
    numbers: Floats  # (2,) learning rate and its decay
    work: Work


@hot
def choose(
    state: State, rng: np.random.Generator, features: Floats, rows: Ints, count: int, slots: Ints, explore: float, chosen: Ints
) -> tuple[int, float]:
    """K documents by softmax without replacement; their scores and what was left at each position are remembered."""
    work, size = state.work, len(slots)
    scores(features, rows, count, state.theta, 0.0, work.score)
    if explore < 1 and rng.random() >= explore:
        best(work.score, count, size, chosen, work)
        return EXPLOITED, 0.0
    highest = -math.inf
    for i in range(count):
        work.other[i] = work.score[i] - math.log(rng.standard_exponential())  # s + Gumbel noise
        highest = max(highest, work.score[i])
    best(work.other, count, size, chosen, work)
    for j in range(size):
        work.other[chosen[j]] = math.inf  # shown
    mass = 0.0
    for i in range(count):
        if work.other[i] < math.inf:
            mass += math.exp(work.score[i] - highest)
    left = highest + math.log(mass) if mass > 0 else -math.inf
    for j in range(size - 1, -1, -1):  # log mass_j = log(mass_{j+1} + e^{s_j})
        score = work.score[chosen[j]]
        high, low = max(left, score), min(left, score)
        left = high + math.log1p(math.exp(low - high))
        state.memory[slots[j], SCORE], state.memory[slots[j], MASS] = score, left
    return SAMPLED, 0.0


@inner
def reversal(memory: Floats, free: Bools, a: int, b: int) -> float:
    """Rho for the documents at positions a < b: P(R*) / (P(R) + P(R*)).

    P(R*) / P(R) = prod_{r = a+1..b} mass_r / (mass_r + e^{s_a} - e^{s_b})
    """
    inverse = 1.0
    for r in range(a + 1, b + 1):
        if free[r]:
            up, down = math.exp(memory[a, SCORE] - memory[r, MASS]), math.exp(memory[b, SCORE] - memory[r, MASS])
            inverse *= max(1 + up - down, up)  # d_a is among what is left at r of R*
    return 1 / (1 + inverse)


@hot
def take(state: State, shown: Shown, clicks: Bools) -> bool:
    """One step along the gradient, if the clicks express any preference."""
    size, dim, memory, weight = len(clicks), shown.features.shape[1], state.memory, state.work.other
    last = -1
    for k in range(size):
        weight[k] = 0.0
        if clicks[k]:
            last = k
    if last < 0:
        return False
    moved = False
    for k in range(size):
        if clicks[k] and shown.free[k] and not math.isnan(memory[k, SCORE]):
            for j in range(min(last + 2, size)):  # those above the last click, and the next below it
                if not clicks[j] and shown.free[j]:
                    # sigma(s - s') sigma(s' - s) = 1 / (2 + e^(s - s') + e^(s' - s))
                    apart = min(abs(memory[k, SCORE] - memory[j, SCORE]), 700.0)
                    step = reversal(memory, shown.free, min(j, k), max(j, k)) / (2 + math.exp(apart) + math.exp(-apart))
                    weight[k] += step
                    weight[j] -= step
                    moved = True
    if moved:
        for k in range(size):
            if weight[k] != 0:
                step = state.numbers[RATE] * weight[k]
                for p in range(dim):
                    state.theta[p + 1] += step * shown.features[k, p]
        state.numbers[RATE] *= state.numbers[DECAY]
    return False


Rate = Annotated[float, Option("eta, the learning rate", above=0, most=1e6)]
Decay = Annotated[float, Option("what the learning rate is multiplied by after each step", above=0, most=1)]


class PDGD(DocumentRanker):
    """Learn a linear ranking function from preferences between clicked and unclicked documents.

    Args:
        features: a catalogue whose items queries name, or None: queries bring their documents' features.
        positions: K, the most documents that a slate shows.
        rounds: how many queries are planned; nothing depends on it.
        seed: the seed of all its random choices.
        dim: where there is no catalogue, how many features a document has.
        context: how many numbers describe a query or its visitor; 0 for none.
        interactions: as :class:`recurrank.Anchored` has them.
        learning_rate: eta.
        decay: what eta is multiplied by after each step.

    >>> import numpy as np
    >>> ranker = PDGD(dim=2, positions=2, seed=0)
    >>> for _ in range(200):
    ...     slate = ranker.rank(np.eye(2))
    ...     ranker.learn(slate, slate.items == 1)
    >>> ranker.rank(np.eye(2), explore=0).items.tolist()
    [1, 0]

    """

    name = "pdgd"
    reference = "Oosterhuis, de Rijke 2018"
    regret_bound = "none; the expected gradient is unbiased up to a positive weight per pair"
    compiled_choose = choose
    compiled_take = take

    state: State

    def __init__(
        self,
        features: ArrayLike | Catalogue | None = None,
        positions: int = 10,
        rounds: int = 1_000_000,
        seed: Seed = None,
        *,
        dim: Dim = None,
        context: ContextSize = 0,
        interactions: Interactions = "none",
        learning_rate: Rate = 0.1,
        decay: Decay = 1.0,
    ) -> None:
        shared = self.begin_queries(features, dim, positions, rounds, seed, context, interactions)
        rates = self.record(learning_rate=learning_rate, decay=decay)
        self.state = State(**shared, memory=np.full((self.positions, 2), np.nan), numbers=np.array(rates))
        _ = self.identity


register(State, PDGD)

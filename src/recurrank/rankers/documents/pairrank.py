"""PairRank: online pairwise learning to rank by divide and conquer (Jia, Wang, Guo, Wang 2021).

P(d_i > d_j) = sigma(x_ij'theta), x_ij = x_i - x_j, is estimated by logistic regression on the preferences seen so far. The
order of two documents is *certain* where even the lower confidence bound of that probability is above one half:

    sigma(x_ij'theta) - alpha ||x_ij||_{M^-1} > 1/2,    M = lambda I + sum x_ij x_ij'

Documents are divided into blocks such that all orders between blocks are certain; blocks are shown in their order, and
each block's documents in a random one, which explores the uncertain orders alone.

| paper                     | code                                                                    |
|---------------------------|-------------------------------------------------------------------------|
| theta_t                   | ``State.theta[1:]``                                                     |
| M_t                       | ``PairRank.moments``; ``State.root`` is R' with R'R = M^-1              |
| alpha_t                   | ``State.numbers[WIDTH]``                                                |
| lambda                    | ``PairRank.ridge``                                                      |
| certain and uncertain rank orders | ``_uncertain``                                                    |
| blocks                    | ``_block``: cuts of the order by score that no uncertain pair crosses    |
| independent pairs         | :func:`take`: each document is in one pair at most                      |

What the paper leaves open, or is different here:

- alpha is an option, a constant; the proved one is so large that nothing becomes certain within any horizon of the experiments.
- Independent pairs: going down to the document after the last click, each document is paired with the nearest one above it that
  is clicked where it is not, or the other way round, and not in a pair yet.
- Most pairs are certain by how far their scores are apart (``_half``); the bound itself is computed for the others.
- theta, M and R are renewed when answers have grown by 4 % (at least 8), which saves a regression per query.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, natural
from recurrank.catalogue import Catalogue
from recurrank.catalogue.rows import one_thread
from recurrank.rankers.documents.ordering import take_best, unordered
from recurrank.rankers.documents.ranker import DocumentRanker, register
from recurrank.rankers.engines.requests import EXPLOITED, SAMPLED, Shown, Work, best, scores
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Seed
from recurrank.rankers.request_ranker import ContextSize, Dim, Interactions
from recurrank.rankers.states import flatten, unflatten

WIDTH = 0
ANSWERS, NEXT, WAITING = range(3)
GROW, LEAST, MOST = 0.04, 8, 2000
ROOM = 4096
"""Most pairs that can wait for the next regression."""
ROUNDING = 1e-9
"""Added to bounds, which are sums of rounded numbers."""
STEPS, PRECISION = 20, 1e-3
"""Most steps of Newton's method, and the relative change that ends it: about its square is still missing then."""


class State(NamedTuple):
    """A ranking function, what is certain about it, and the pairs since it was estimated."""

    features: Floats  # (L, d) of the catalogue
    short: Ints  # unused
    account: Floats  # unused
    theta: Floats  # (d + 1,) the first is 0
    memory: Floats  # (K, 1) 0 where the slate explored
    numbers: Floats  # (1,) alpha
    root: Floats  # (d, d) R', upper triangular: loops over its rows have no gaps
    pairs: Floats  # (ROOM, d) x_ij, clicked less unclicked
    clock: Ints  # (3,) answers; answers at the next estimate; pairs that wait
    image: Floats  # (n, d) R (x - middle) of the present query's best documents
    work: Work


@inner
def _half(state: State, radius: float) -> float:
    """Half of the distance between two scores from which their order is certain, if both images are in a ball of this radius.

    sigma(2 half) - 1/2 = alpha 2 radius. Half is convex in the radius: where radii differ, the sum of both halves is enough.
    """
    twice = 4 * state.numbers[WIDTH] * radius * (1 + ROUNDING)
    return math.log((1 + twice) / (1 - twice)) / 2 + ROUNDING if twice < 1 else math.inf


@inner
def _survey(state: State, features: Floats, rows: Ints, count: int) -> float:
    """Keep the middle of the documents' features in ``work.row``; return an upper bound on :func:`_half`.

    |(R (x - middle))_p| <= sum_q |R_pq| (max x_q - min x_q) / 2.
    """
    middle, spread, most, square = state.work.row, state.work.image, state.image[0], 0.0
    for p in range(features.shape[1]):
        middle[p] = spread[p] = features[rows[0], p]
    for i in range(1, count):
        for p in range(features.shape[1]):
            middle[p], spread[p] = min(middle[p], features[rows[i], p]), max(spread[p], features[rows[i], p])
    most[:] = 0.0
    for q in range(features.shape[1]):
        middle[q], spread[q] = (spread[q] + middle[q]) / 2, (spread[q] - middle[q]) / 2
        for p in range(q, features.shape[1]):
            most[natural(p)] += abs(state.root[q, natural(p)]) * spread[q]
    for p in range(features.shape[1]):
        square += most[p] * most[p]
    return _half(state, math.sqrt(square))


@inner
def _picture(state: State, features: Floats, row: int, i: int) -> None:
    """Compute R (x - middle) of a document, so that ||x_ij||_{M^-1} is the distance of two images; and its :func:`_half`."""
    image, square = state.image[i], 0.0
    image[:] = 0.0
    for q in range(features.shape[1]):
        x = features[row, q] - state.work.row[q]
        for p in range(q, features.shape[1]):
            image[natural(p)] += state.root[q, natural(p)] * x
    for p in range(features.shape[1]):
        square += image[p] * image[p]
    state.work.other[i] = _half(state, math.sqrt(square))


@inner
def _uncertain(state: State, i: int, j: int) -> bool:
    """Whether the order of i before j, by their scores, is not certain."""
    work = state.work
    lead = 1 / (1 + math.exp(-min(work.score[i] - work.score[j], 700.0))) - 0.5
    if state.numbers[WIDTH] == 0:
        return bool(lead <= 0)
    bar, square = (lead / state.numbers[WIDTH]) ** 2, 0.0
    for p in range(state.image.shape[1]):
        apart = state.image[i, p] - state.image[j, p]
        square += apart * apart
        if square >= bar:
            return True
    return False


@inner
def _block(state: State, features: Floats, rows: Ints, count: int, start: int, ordered: int, most: float) -> tuple[int, int]:
    """The last rank of the block from ``start`` on, which no uncertain pair crosses, and how many documents are sorted by then.

    Rank r is ``order[count - 1 - r]``; documents are sorted only as far as the block may reach.
    """
    score, half, order, bottom = state.work.score, state.work.other, state.work.kept, count - 1
    end, rank = start, start
    while rank <= end:
        other = min(ordered, end + 1)
        while other < count:
            if other == ordered:
                item = take_best(score, order, count - ordered)
                _picture(state, features, rows[item], item)
                ordered += 1
            i, j = order[bottom - rank], order[bottom - other]
            least = score[i] - half[i]
            if least > score[j] + most:
                break
            if other > end and least <= score[j] + half[j] and _uncertain(state, i, j):
                end = other
            other += 1
        rank += 1
    return end, ordered


@hot
def choose(
    state: State, rng: np.random.Generator, features: Floats, rows: Ints, count: int, slots: Ints, explore: float, chosen: Ints
) -> tuple[int, float]:
    """Blocks in the order of the scores, shuffled within."""
    work, size, bottom = state.work, len(slots), count - 1
    scores(features, rows, count, state.theta, 0.0, work.score)
    if explore < 1 and rng.random() >= explore:
        best(work.score, count, size, chosen, work)
        return EXPLOITED, 0.0
    order, start, ordered = work.kept, 0, 0
    most = _survey(state, features, rows, count)
    unordered(work.score, count, order)
    while start < size:
        end, ordered = _block(state, features, rows, count, start, ordered, most)
        for k in range(start, min(end + 1, size)):
            other = k + int(rng.random() * (end + 1 - k))
            item = order[bottom - other]
            order[bottom - other] = order[bottom - k]
            order[bottom - k] = item
            chosen[k] = item
            state.memory[slots[k], 0] = 0.0
        start = end + 1
    return SAMPLED, 0.0


@hot
def take(state: State, shown: Shown, clicks: Bools) -> bool:
    """Keep the pairs that the clicks order. True when it is time to estimate."""
    size, dim, taken, last = len(clicks), shown.features.shape[1], state.work.order, -1
    for k in range(size):
        taken[k] = not shown.free[k] or math.isnan(state.memory[k, 0])
        if clicks[k]:
            last = k
    for k in range(min(last + 2, size) if last >= 0 else 0):
        for j in range(k - 1, -1, -1):
            if not taken[k] and not taken[j] and clicks[j] != clicks[k]:
                taken[k] = taken[j] = 1
                liked, other, row = (k, j, state.clock[WAITING]) if clicks[k] else (j, k, state.clock[WAITING])
                for p in range(dim):
                    state.pairs[row, p] = shown.features[liked, p] - shown.features[other, p]
                state.clock[WAITING] += 1
    state.clock[ANSWERS] += 1
    full = state.clock[WAITING] + size > state.pairs.shape[0]
    return bool(full or state.clock[ANSWERS] >= state.clock[NEXT])


class PairRank(DocumentRanker):
    """Explore only the orders of documents that are not certain yet.

    Args:
        features: a catalogue whose items queries name, or None: queries bring their documents' features.
        positions: K, the most documents that a slate shows.
        rounds: how many queries are planned; nothing depends on it.
        seed: the seed of all its random choices.
        dim: where there is no catalogue, how many features a document has.
        context: how many numbers describe a query or its visitor; 0 for none.
        interactions: as :class:`recurrank.Anchored` has them.
        width: alpha.
        ridge: lambda.

    >>> import numpy as np
    >>> ranker = PairRank(dim=2, positions=2, seed=0)
    >>> for _ in range(500):
    ...     slate = ranker.rank(np.eye(2))
    ...     ranker.learn(slate, slate.items == 1)
    >>> {tuple(ranker.rank(np.eye(2)).items.tolist()) for _ in range(20)}
    {(1, 0)}

    """

    name = "pairrank"
    reference = "Jia, Wang, Guo, Wang 2021"
    regret_bound = "O(d log^4 T) mis-ordered pairs, with the proved alpha"
    compiled_choose = choose
    compiled_take = take
    from_catalogue = ("features", "work", "image")

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
        width: Annotated[float, Option("alpha, the width of confidence bounds", least=0, most=1e6)] = 0.1,
        ridge: Annotated[float, Option("lambda, the prior's precision of every coefficient", least=1e-6, most=1e6)] = 0.1,
    ) -> None:
        shared = self.begin_queries(features, dim, positions, rounds, seed, context, interactions)
        self.width_of_bounds, self.ridge = self.record(width=width, ridge=ridge)
        d, room = self.width, max(ROOM, 2 * self.positions)
        self.moments, self.seen = self.ridge * np.eye(d), np.zeros((0, d))
        self.state = State(
            **shared,
            memory=np.full((self.positions, 1), np.nan),
            numbers=np.array([self.width_of_bounds]),
            root=np.eye(d) / math.sqrt(self.ridge),
            pairs=np.zeros((room, d)),
            clock=np.array([0, LEAST, 0], np.int64),
            **self._room(len(shared["work"].score)),
        )
        _ = self.identity

    @one_thread()
    def plan(self) -> None:
        """Estimate theta from all pairs, and its uncertainty."""
        state, answers = self.state, int(self.state.clock[ANSWERS])
        new = state.pairs[: state.clock[WAITING]]
        self.seen = np.concatenate([self.seen, new])
        self.moments = self.moments + new.T @ new
        state.theta[1:] = logistic(self.seen, self.ridge, state.theta[1:])
        state.root[:] = np.linalg.inv(np.linalg.cholesky(self.moments)).T  # M = L L', R = L^-1
        state.clock[WAITING], state.clock[NEXT] = 0, answers + min(MOST, max(LEAST, int(GROW * answers)))

    def _room(self, candidates: int) -> dict[str, Any]:
        return {"image": np.zeros((candidates, self.width))}

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        arrays = {**dict(flatten(self.state, self.from_catalogue)), "moments": self.moments, "seen": self.seen}
        return {"due": self.due}, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.state = unflatten(self.state, self.from_catalogue, arrays)
        self.moments, self.seen, self.due = arrays["moments"], arrays["seen"], values["due"]


def logistic(pairs: Floats, ridge: float, start: Floats) -> Floats:
    """The theta of least loss sum log(1 + exp(-x_ij'theta)) + lambda / 2 |theta|^2, by Newton's method from ``start``."""

    def at(theta: Floats) -> tuple[float, Floats]:
        """The loss and 1 - sigma(x_ij'theta), from one exponential per pair."""
        lead = pairs @ theta
        small = np.exp(-np.abs(lead))
        loss = float((np.log(1 + small) - np.minimum(lead, 0)).sum() + ridge / 2 * theta @ theta)
        return loss, np.where(lead > 0, small, 1.0) / (1 + small)

    theta, (now, chance) = start, at(start)
    for _ in range(STEPS):
        slope = ridge * theta - pairs.T @ chance
        curve = (pairs * (chance * (1 - chance))[:, None]).T @ pairs + ridge * np.eye(len(theta))
        change, share = np.linalg.solve(curve, slope), 1.0
        while (found := at(theta - share * change))[0] > now and share > 1e-6:
            share /= 2
        theta, (now, chance) = theta - share * change, found
        if np.abs(share * change).max() < PRECISION * max(1.0, float(np.abs(theta).max())):
            break
    return theta


register(State, PairRank)

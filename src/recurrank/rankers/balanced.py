"""Balanced: RecurRank's assumptions, and exploration that never costs more than what ignorance may be costing.

Under Assumption 1 the examination of a position depends on the *set* of items above it. So all clicks at position k under one
set above are linear in the features, with parameter chi theta for one unknown chi. RecurRank uses them a phase at a time;
here a block keeps them for as long as the set above it stands, which is for ever: blocks only ever split, and all but the last
one have as many items as positions.

A round, for each block, of m positions from k on:

    usually          at k the best item under a sample of the posterior, below it the best-known items in order
    in a share f     *balance*: draw a wider sample. What the present order would lose if it were the truth is paid into an
                     account. The item that the two orders disagree about most is shown at k if the account covers its cost.

When the answers have grown by 1 % (by a quarter while a block has thousands of items), everything is estimated anew, and the
samples of the coming rounds are drawn: so a round is a choice from tables. When they have grown by 10 %, blocks are certified:
x is better than y if one data set alone says so by beta widths of x - y, which no unknown chi can spoil. An item with m better
ones is dropped, and a block is cut where every item above the cut is better than every item below.

| here                           | code                                                                   |
|--------------------------------|------------------------------------------------------------------------|
| block: k, m, items             | ``Block.first``, ``Block.width``, ``Block.items``                      |
| V_i, b_i of a block            | ``State.moments``, ``State.sums``, weighted by 1 / variance of a click |
| theta, scales s_i, information | ``_estimate``                                                          |
| W_k, what a position is worth  | ``_weights``                                                           |
| samples, gains and costs       | ``State.first``; ``State.asked``, ``gain``, ``cost``; filled by look   |
| account                        | ``State.account``                                                      |
| certificates                   | ``_certify``                                                           |

What is proved and what is only measured is in docs/balanced.md.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner
from recurrank.catalogue.rows import one_thread
from recurrank.rankers.engines.certificates import Alone, divided
from recurrank.rankers.engines.coordinates import Coordinates
from recurrank.rankers.engines.pieces import farthest, leaders_first
from recurrank.rankers.engines.placing import show_leaders, show_tried
from recurrank.rankers.engines.posterior import candidates, look
from recurrank.rankers.engines.propensity import FIRST, WIDTH, one_tried_per_block
from recurrank.rankers.knowledge import Knowledge, KnownBlock
from recurrank.rankers.options import Delta, Option
from recurrank.rankers.prior import BelievedBefore, Prior, combine
from recurrank.rankers.ranker import Buffer, Items, Seed, register
from recurrank.rankers.restocking import Restocking
from recurrank.rankers.states import flatten
from recurrank.rankers.stock import Stock

SAMPLES = 64
"""Drawn at a time, for all rounds until the next estimate."""
GROW, LEAST = 0.01, 32
"""Answers until the next estimate: this share more, and at least so many."""
LARGE, LARGE_SAMPLES, LARGE_GROW = 1024, 32, 0.25
"""While a block has more items than this, an estimate reads all of them: it draws fewer samples, and waits for more answers."""
ANY_SIZE = 1 << 62
"""No block is large: as it was in version 0.1.0."""
CERTIFY = 1.1
"""Blocks are certified when the answers have grown by this factor."""
NARROW, WIDE = 1.0, (1.0, 2.0)
"""Standard deviations of samples: of usual rounds, and of balance rounds, in turn."""
BALANCE, SHARE = 0.2, 2.5
"""The share f of balance rounds, and how much of what an order may lose is paid in: f * SHARE = half of it."""
BETA = 5.0
"""Widths of a difference that certify it, where the setting is "tuned"."""
INSURANCE = 2e-4
"""The share of the worst that may be the case that is spent on the least known item, whatever the samples say."""
LEAST_VARIANCE = 0.02
KEY, ROW = 0, 3
ANSWERS, NEXT, CERTIFIED = 0, 1, 2
ACCOUNT_BITS, COST_BITS, POSITION = 20, 32, (1 << 20) - 1
"""A slate's second mark: its block's first position, the account that paid for the tried item, and how much, as a float32."""


class State(NamedTuple):
    """B blocks, S samples each; all data sets, one a block that has something to find out, in the order of positions."""

    features: Floats  # (L, r) coordinates in which the optimal design has unit moments
    leaders: Ints  # (K,) the best-known items in order
    block: Ints  # (B, 4) key, first position, width, and its data set (-1: one item, nothing to find out)
    first: Ints  # (B, S) what to show first in usual rounds
    asked: Ints  # (B, S + 1) what balance rounds ask for, -1 for nothing; at the end, the least known item
    gain: Floats  # (B, S + 1) what the present order may be losing a round
    cost: Floats  # (B, S + 1) what it costs to ask
    account: Floats  # (B, 2) what may be spent: on what samples ask for, and on the least known item
    moments: Floats  # (D, r, r)
    sums: Floats  # (D, r)
    weight: Floats  # (L,) one over the variance of a click on the item, where it stands first
    shown: Floats  # (K, r) sums of what was shown at each position
    clicks: Ints  # (K,)
    key: Ints  # (D,) of data sets, as slates call them
    clock: Ints  # (3,) answers; of these, when to estimate next, and when blocks were certified last


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    """One item a block out of order, if any; the leaders in order below it."""
    marks, marked = slate.marks, 0
    for b in range(state.block.shape[0]):
        k, stop = state.block[b, FIRST], state.block[b, FIRST] + state.block[b, WIDTH]
        if state.block[b, ROW] >= 0:
            marks[marked, 0] = state.block[b, KEY]
            tried, account, cost = _choose(state, rng, b)
            marks[marked, 1] = k | account << ACCOUNT_BITS | np.int64(np.float32(cost).view(np.int32)) << COST_BITS
            marked += 1
            show_tried(slate.items, state.leaders, k, stop, tried)
        else:
            show_leaders(slate.items, state.leaders, k, stop)
    if marked < len(marks):
        marks[marked, 0] = -1


@hot
def _choose(state: State, rng: np.random.Generator, b: int) -> tuple[int, int, float]:
    """What block b shows first; which of its accounts pays for it, counted from 1 (0: none), and how much."""
    balance, samples = rng.random() < BALANCE, state.first.shape[1]
    s = int(rng.random() * samples)
    if balance:
        account = state.account
        account[b, 0] += SHARE * state.gain[b, s]
        account[b, 1] += INSURANCE / BALANCE * state.gain[b, samples]
        if state.asked[b, samples] >= 0 and account[b, 1] >= state.cost[b, samples]:
            account[b, 1] -= state.cost[b, samples]
            return int(state.asked[b, samples]), 2, float(state.cost[b, samples])
        if state.asked[b, s] >= 0 and account[b, 0] >= state.cost[b, s]:
            account[b, 0] -= state.cost[b, s]
            return int(state.asked[b, s]), 1, float(state.cost[b, s])
    return int(state.first[b, s]), 0, 0.0


@hot
def recall(state: State, before: Floats) -> None:
    """Both accounts of each block."""
    for b in range(len(state.account)):
        before[2 * b], before[2 * b + 1] = state.account[b, 0], state.account[b, 1]


@inner
def share(state: State, before: Floats, slate: Buffer, b: int, item: int) -> float:
    """The probability with which :func:`_choose` took this item: a sum over its tables."""
    if state.block[b, ROW] < 0:
        return 1.0 if state.leaders[state.block[b, FIRST]] == item else 0.0
    first, asked, gain, cost, samples = state.first[b], state.asked[b], state.gain[b], state.cost[b], state.first.shape[1]
    insured = asked[samples] >= 0 and before[2 * b + 1] + INSURANCE / BALANCE * gain[samples] >= cost[samples]
    usual, balance = 0, samples * (asked[samples] == item) if insured else 0
    for s in range(samples):
        usual += first[s] == item
        if not insured:
            affordable = asked[s] >= 0 and before[2 * b] + SHARE * gain[s] >= cost[s]
            balance += (asked[s] if affordable else first[s]) == item
    return float(((1 - BALANCE) * usual + BALANCE * balance) / samples)


propensity = one_tried_per_block(share)


@hot
def served(state: State, slate: Buffer) -> None:
    """A copy has served this slate: accounts get what a round pays in on average, and pay what the slate has cost."""
    samples = state.first.shape[1]
    for i in range(len(slate.marks)):
        if slate.marks[i, 0] < 0:
            break
        account, cost = slate.marks[i, 1] >> ACCOUNT_BITS & 3, np.int32(slate.marks[i, 1] >> COST_BITS).view(np.float32)
        for b in range(state.block.shape[0]):
            if state.block[b, KEY] == slate.marks[i, 0] and state.block[b, ROW] >= 0:
                paid = 0.0
                for s in range(samples):
                    paid += state.gain[b, s]
                state.account[b, 0] += BALANCE * SHARE * paid / samples
                state.account[b, 1] += INSURANCE * state.gain[b, samples]
                if account > 0:
                    state.account[b, account - 1] -= cost


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    """A click or none for every data set whose set of items above still stands. True when it is time to estimate."""
    features, dim = state.features, state.features.shape[1]
    for i in range(len(slate.marks)):
        if slate.marks[i, 0] < 0:
            break
        row = -1
        for r in range(len(state.key)):
            if state.key[r] == slate.marks[i, 0]:
                row = r
        k = slate.marks[i, 1] & POSITION
        if row < 0 or not 0 <= k < len(slate.items):
            continue
        x = slate.items[k]
        w = state.weight[x]
        for p in range(dim):
            wp = w * features[x, p]
            for q in range(dim):
                state.moments[row, p, q] += wp * features[x, q]
            state.sums[row, p] += wp * clicks[k]
    for k in range(len(slate.items)):
        if state.weight[slate.items[k]] > 0:
            state.clicks[k] += clicks[k]
            for p in range(dim):
                state.shown[k, p] += features[slate.items[k], p]
    state.clock[ANSWERS] += 1
    return bool(state.clock[ANSWERS] >= state.clock[NEXT])


@dataclass
class Block:
    """Neighbouring positions and the items that compete for them, best-known first as of the last certification."""

    key: int
    first: int
    width: int
    items: NDArray[np.int32]
    least: tuple[int, float] | None = None  # of a large block just certified: its least known item and the width of that

    @property
    def positions(self) -> range:
        """Its positions, counted from 0."""
        return range(self.first, self.first + self.width)

    @property
    def size(self) -> int:
        """How many items."""
        return len(self.items)


class Balanced(Restocking):
    """Rank a catalogue with features under an unknown click model, exploring only as far as it pays.

    >>> import recurrank as rr
    >>> problem = rr.synthetic(items=100, dim=3, seed=0)
    >>> model = rr.clicks.DocumentBased(problem.attraction)
    >>> run = rr.simulate(Balanced(problem.features, positions=4, rounds=20_000, seed=0), model, 20_000, seed=1)
    >>> other = rr.simulate(rr.RecurRank(problem.features, positions=4, rounds=20_000, seed=0), model, 20_000, seed=1)
    >>> bool(run.regret[-1] < other.regret[-1] / 3)
    True

    """

    name = "balanced"
    reference = "this project"
    believes = "general click model"
    uses_features = True
    regret_bound = "O(K sqrt(d T log(L T))) if proved, see docs/balanced.md"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_recall = recall
    compiled_propensity = propensity
    from_catalogue = ("features",)

    state: State
    large: int = LARGE
    epoch: int = 0
    """How often items have come or gone."""
    _believed: Prior | None = None

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        confidence: Annotated[
            Literal["tuned", "proved"],
            Option("certificates of 5 estimated deviations, or widths that hold at all times with probability 1 - delta"),
        ] = "tuned",
        delta: Delta = None,
        prior: BelievedBefore = None,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        self.confidence, self.delta = self.record(confidence=confidence, delta=delta)
        self._believed = self.record_prior(prior)
        order = self._alive()
        self._coordinates = Coordinates.of(
            self.catalogue.features, None if len(order) == len(self.catalogue.features) else order, self.catalogue.scales
        )
        order = order[self.rng.permutation(len(order))]
        known = np.isin(order, self._coordinates.support)  # a first slate of items that differ much cannot be all bad
        others = order[~known]
        if len(order) > self.large:
            others.sort()  # read in the order of memory
        order = np.concatenate([order[known], others])
        self.blocks = [Block(self._key(0, order[:0]), 0, self.positions, order)]
        self.state = self._empty(self._coordinates.points(self.catalogue.features))
        self._tables(*self._estimate(), 1 / np.arange(1.0, self.positions + 1))

    def _empty(self, points: Floats) -> State:
        (items, dim), k = points.shape, self.positions
        return State(
            features=points,
            leaders=np.zeros(k, np.int64),
            block=np.zeros((1, 4), np.int64),
            first=np.zeros((1, 1), np.int64),  # these four are filled by _tables
            asked=np.zeros((1, 1), np.int64),
            gain=np.zeros((1, 1)),
            cost=np.zeros((1, 1)),
            account=np.zeros((1, 2)),
            moments=np.zeros((1, dim, dim)),
            sums=np.zeros((1, dim)),
            weight=np.full(items, 4.0),
            shown=np.zeros((k, dim)),
            clicks=np.zeros(k, np.int64),
            key=np.array([self.blocks[0].key], np.int64),
            clock=np.array([0, self._least(0), 0], np.int64),
        )

    @one_thread()
    def plan(self) -> None:
        """Estimate, certify when it is time, and fill the tables for the coming rounds."""
        self._renew(certify=bool(self.state.clock[ANSWERS] >= CERTIFY * self.state.clock[CERTIFIED]))
        self.due = False

    def _renew(self, certify: bool) -> None:
        answers = int(self.state.clock[ANSWERS])
        theta, information = self._estimate()
        ordered = False
        if certify:
            self._certify(theta)
            self.state.clock[CERTIFIED] = answers
            before, (theta, information) = theta, self._estimate()
            ordered = len(self.state.key) == 1 and np.array_equal(theta, before)
        self._tables(theta, information, self._weights(theta), ordered)
        self.state.clock[NEXT] = answers + max(self._least(answers), int((LARGE_GROW if self._large() else GROW) * answers))

    @one_thread()
    def restock(self, stock: Stock) -> None:
        """All items compete for all positions again, by what the clicks at position 1 say, and are certified anew at once.

        Nothing stands above position 1: its data hold whatever else is shown. Answers to earlier slates are not learned from.
        """
        state, before, rows = self.state, self._coordinates, stock.features[stock.alive]
        if not before.reach(rows):  # an item beside the span of all others: theta has more coordinates than it had
            self._coordinates = Coordinates.of(stock.features, stock.alive, np.abs(rows).max(axis=0))
        change = before.back @ self._coordinates.map  # x @ map = (x @ old map) @ change
        if self._coordinates is before:
            change = np.eye(len(change))
        weight = np.zeros(len(stock.features))  # nothing is learned from an item that is gone
        same = self.unchanged(stock)
        weight[stock.alive] = 4.0
        weight[same] = state.weight[same]
        known = np.concatenate([block.items for block in self.blocks])
        items = np.concatenate([known[np.isin(known, same)], np.setdiff1d(stock.alive, known[np.isin(known, same)])])
        self.catalogue, self.epoch = stock, self.epoch + 1
        self.blocks = [Block(self._key(0, known[:0]), 0, self.positions, items.astype(np.int32))]
        self.state = state._replace(
            features=self._coordinates.points(stock.features),
            block=np.array([[self.blocks[0].key, 0, self.positions, 0]]),
            account=state.account.sum(axis=0, keepdims=True),
            moments=(change.T @ state.moments[0] @ change)[None],
            sums=(state.sums[0] @ change)[None],
            weight=weight,
            shown=state.shown @ change,
            key=np.array([self.blocks[0].key]),
        )
        self._renew(certify=True)

    def _alive(self) -> NDArray[np.int32]:
        """The indices of all items."""
        whole = np.arange(len(self.catalogue.features)) if not isinstance(self.catalogue, Stock) else self.catalogue.alive
        return whole.astype(np.int32)

    def _key(self, first: int, above: NDArray[np.int32]) -> int:
        """What slates call a data set: a digest of its position, of the set of items above it, and of when there were these."""
        when = f"{self.epoch}/" if self.epoch else ""
        what = f"{when}{first}:".encode() + np.sort(above).astype("<i4").tobytes()
        return int.from_bytes(hashlib.blake2b(what, digest_size=8).digest(), "big") >> 1

    def follow(self, rules: int) -> None:
        super().follow(rules)
        self.large = ANY_SIZE if rules == 1 else LARGE

    def knowledge(self) -> Knowledge:
        blocks = [KnownBlock(number, block.first, block.width, block.size) for number, block in enumerate(self.blocks)]
        return Knowledge(blocks, self.state.leaders.tolist())

    def _least(self, answers: int) -> int:
        """Answers until the next estimate at least: few while a prior that may be wrong decides what is shown."""
        return LEAST if self._believed is None or answers >= 2 * LEAST else LEAST // 4

    def _large(self) -> bool:
        """Whether a block has so many items that reading them is what an estimate costs."""
        return any(block.size > self.large for block in self.blocks)

    def _estimate(self) -> tuple[Floats, Floats]:
        """Theta from all data sets together, and the information left when the scales s_i are profiled out.

        theta = (I + sum s_i^2 V_i)^-1 sum s_i b_i,  s_i = theta'b_i / theta'V_i theta, falling, s_1 = 1, in turns;
        J = I + V_1 + sum_{i>1} s_i^2 (V_i - V_i theta theta'V_i / theta'V_i theta). V_i and b_i are divided by variances.
        """
        moments, sums = self.state.moments, self.state.sums
        dim = moments.shape[1]
        scales = np.zeros(len(moments))
        scales[0] = 1.0
        theta = np.linalg.solve(np.eye(dim) + moments[0], sums[0])
        for _ in range(3 if len(moments) > 1 else 0):
            for i in range(1, len(moments)):
                seen = theta @ moments[i] @ theta
                scale = theta @ sums[i] / seen if seen > 0 else 0.0
                scales[i] = min(max(scale, 0.0), scales[i - 1] or 1.0)
            information = np.eye(dim) + np.tensordot(scales**2, moments, 1)
            theta = np.linalg.solve(information, scales @ sums)
        left = np.eye(dim) + moments[0]
        for i in range(1, len(moments)):
            image = moments[i] @ theta
            if scales[i] > 0 and theta @ image > 0:
                left = left + scales[i] ** 2 * (moments[i] - np.outer(image, image) / (theta @ image))
        self._scales = scales
        if self._believed is None:
            return theta, left
        map_ = self._coordinates.map
        return combine(theta, left, map_.T @ self._believed.moments @ map_, map_.T @ self._believed.sums)

    def _weights(self, theta: Floats) -> Floats:
        """W_k: clicks at k over the scores shown there, falling with k."""
        scores = np.maximum(self.state.shown @ theta, 1e-9)
        worth = np.where(scores > 20, self.state.clicks / scores, 1.0)
        falling: Floats = np.minimum.accumulate(np.clip(worth, 1e-4, 1.5))
        return falling

    def _tables(self, theta: Floats, information: Floats, worth: Floats, ordered: bool = False) -> None:
        """Samples for the coming rounds, and what they say about each block; the variance of clicks, item by item.

        ``ordered`` says that blocks were certified just now, by this theta, which put their best items first.
        """
        dim, count = len(theta), len(self.blocks)
        samples = LARGE_SAMPLES if self._large() else SAMPLES
        spread = np.linalg.cholesky(np.linalg.inv(information))
        radius = math.sqrt(dim) + 2.5
        narrow, wide = (self._sample(dim, samples, radius) for _ in range(2))
        narrow = theta[:, None] + NARROW * (spread @ narrow)
        wide = theta[:, None] + np.resize(WIDE, samples) * (spread @ wide)
        state = self.state
        block, leaders = np.zeros((count, 4), np.int64), np.zeros(self.positions, np.int64)
        first, asked = np.zeros((count, samples), np.int64), np.full((count, samples + 1), -1)
        gain, cost = np.zeros((count, samples + 1)), np.zeros((count, samples + 1))
        rows = {int(key): row for row, key in enumerate(state.key)}
        for b, one in enumerate(self.blocks):
            large = one.size > self.large
            if not large:
                items = one.items[candidates(state.features, one.items, theta, spread, max(WIDE) * radius, one.width)]
            elif ordered:
                items = one.items
            else:
                items = leaders_first(state.features, one.items, theta, one.width)
            leaders[one.first : one.first + one.width] = items[: one.width]
            row = rows.get(one.key, -1) if len(one.items) > 1 else -1
            block[b] = (one.key, one.first, one.width, row)
            if row < 0:
                continue
            own = worth[one.first : one.first + one.width]
            look(state.features, items, not large, own, theta, narrow, wide, first[b], asked[b], gain[b], cost[b])
            self._insure(one, row, own, theta, ordered, asked[b], gain[b], cost[b])
            if self.confidence == "tuned" and state.clock[ANSWERS] > 100:
                # of a large block, those that may be shown first before the next estimate
                varied = np.unique(np.append(first[b], asked[b][asked[b] >= 0])) if large else items
                self._vary(varied, theta, spread, self._scales[row] or 1.0)
        self.state = state._replace(block=block, leaders=leaders, first=first, asked=asked, gain=gain, cost=cost)

    def _sample(self, dim: int, samples: int, radius: float) -> Floats:
        """Standard normal columns, cut off at the radius."""
        drawn = self.rng.standard_normal((dim, samples))
        cut: Floats = drawn * np.minimum(1.0, radius / np.linalg.norm(drawn, axis=0))
        return cut

    def _insure(
        self, block: Block, row: int, worth: Floats, theta: Floats, fresh: bool, asked: Ints, gain: Floats, cost: Floats
    ) -> None:  # fmt: skip
        """The item that is least known against the leader, and the worst that not knowing it may cost a round."""
        inverse, _, beta = self._single(row)
        if block.size <= self.large:
            apart = self.state.features[block.items] - self.state.features[block.items[0]]
            widths = np.sqrt(np.maximum(((apart @ inverse) * apart).sum(axis=1), 0.0))
            place = int(np.argmax(widths))
            least, width = int(block.items[place]), float(widths[place])
        elif fresh and block.least is not None:
            least, width = block.least
        else:
            place, width = farthest(self.state.features, block.items, inverse)
            least = int(block.items[place])
        asked[-1] = least if width > 0 else -1
        gain[-1] = worth.sum() * min(1.0, 2 * beta * width)
        scores = self.state.features[[block.items[0], least]] @ theta
        cost[-1] = worth[0] * max(float(scores[0] - scores[1]), 0.0)

    def _vary(self, items: NDArray[np.integer[Any]], theta: Floats, spread: Floats, scale: float) -> None:
        """The variance p (1 - p) of a click on each item, with p as near to 1/2 as two deviations allow."""
        points = self.state.features[items]
        off = np.abs(scale * (points @ theta) - 0.5) - 2 * scale * np.linalg.norm(points @ spread, axis=1)
        self.state.weight[items] = 1 / np.maximum(0.25 - np.clip(off, 0.0, 0.5) ** 2, LEAST_VARIANCE)

    def _single(self, row: int) -> Alone:
        """What one data set alone says: (I + V)^-1, the estimate, and how many widths certify.

        The proved number, with noise of variance proxy 1/4 and so weights 4: sqrt(2 log(K / delta) + log det(I + V)) + 1,
        since chi theta has length at most 1 in these coordinates (Abbasi-Yadkori, Pal, Szepesvari 2011, Theorem 2).
        """
        information = np.eye(self.state.moments.shape[1]) + self.state.moments[row]
        inverse = np.linalg.inv(information)
        beta = BETA
        if self.confidence == "proved":
            volume = float(np.linalg.slogdet(information)[1])
            beta = math.sqrt(2 * math.log(self.positions / self.delta) + volume) + 1
        return Alone(inverse, inverse @ self.state.sums[row], beta)

    def _certify(self, theta: Floats) -> None:
        """Drop items with m certified better ones; cut where all above are certified better than all below."""
        rows = {int(key): row for row, key in enumerate(self.state.key)}
        singles = [self._single(row) for row in range(len(rows))]
        after: list[Block] = []
        above: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
        for block in self.blocks:
            own = rows.get(block.key, 0)
            for part in divided(self.state.features, block.items, theta, block.width, singles, own, self.large):
                first = after[-1].first + after[-1].width if after else 0
                after.append(Block(self._key(first, np.concatenate(above)), first, part.width, part.items, part.least))
                above.append(part.items)
        self.blocks = after
        self._carry()

    def _carry(self) -> None:
        """Data sets and accounts for the blocks as they are now: a data set goes on while the set above it stands."""
        state = self.state
        rows = {int(key): row for row, key in enumerate(state.key)}
        old = {int(key): b for b, key in enumerate(state.block[:, KEY])}
        keys = [block.key for block in self.blocks if block.key in rows or len(block.items) > 1]
        moments, sums = np.zeros((len(keys), *state.moments.shape[1:])), np.zeros((len(keys), state.sums.shape[1]))
        for i, key in enumerate(keys):
            if key in rows:
                moments[i], sums[i] = state.moments[rows[key]], state.sums[rows[key]]
        account = np.zeros((len(self.blocks), 2))
        for b, block in enumerate(self.blocks):
            if block.key in old:
                account[b] = state.account[old[block.key]]
        self.state = state._replace(moments=moments, sums=sums, key=np.array(keys, np.int64), account=account)

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        arrays = dict(flatten(self.state, self.from_catalogue))
        arrays |= {f"items.{b}": block.items for b, block in enumerate(self.blocks)}
        values = {
            "blocks": [[block.key, block.first, block.width] for block in self.blocks],
            "scales": [float(scale) for scale in self._scales],
            "due": self.due,
        }
        if self.epoch:
            values["epoch"], arrays["map"], arrays["back"] = self.epoch, self._coordinates.map, self._coordinates.back
        return values, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        super().unpack(values, arrays)
        kept = enumerate(values["blocks"])
        self.blocks = [Block(key, first, width, arrays[f"items.{b}"]) for b, (key, first, width) in kept]
        self._scales, self.due, self.epoch = np.array(values["scales"]), values["due"], values.get("epoch", 0)
        if self.epoch:
            self._coordinates = Coordinates(arrays["map"], arrays["back"], self._coordinates.support)
            self.state = self.state._replace(features=self._coordinates.points(self.catalogue.features))

    _scales: Floats = np.ones(1)


register(State, Balanced)

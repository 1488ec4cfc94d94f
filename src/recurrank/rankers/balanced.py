"""Balanced: RecurRank's assumptions, and exploration that never costs more than what ignorance may be costing.

Under Assumption 1 the examination of a position depends on the *set* of items above it. So all clicks at position k under one
set above are linear in the features, with parameter chi theta for one unknown chi. RecurRank uses them a phase at a time;
here a block keeps them while the set above it stays the same, which is always: blocks only ever split, and all but the last
one have as many items as positions.

A round, for each block, of m positions from k on:

    usually          at k the best item under a sample of the posterior, below it the best-known items in order
    in a share f     *balance*: draw a wider sample. What the present order would lose if it were the truth is paid into an
                     account. The item that the two orders disagree about most is shown at k if the account covers its cost.

When the answers have grown by 1 % (by a quarter while a block has thousands of items), everything is estimated anew, and the
samples of the coming rounds are drawn: a round only reads tables. When they have grown by 10 %, blocks are certified:
x is better than y if one data set alone says so by beta widths of x - y, which holds for every chi. An item with m better
ones is dropped, and a block is cut where every item above the cut is better than every item below.

| here                           | code                                                                   |
|--------------------------------|------------------------------------------------------------------------|
| block: k, m, items             | ``Block.first``, ``Block.width``, ``Block.items``                      |
| V_i, b_i of a block            | ``State.moments``, ``State.sums``, weighted by 1 / variance of a click |
| theta, scales s_i, information | ``engines/profiling.py``                                               |
| W_k, what a position is worth  | ``_weights``                                                           |
| samples, gains and costs       | ``State.first``; ``State.asked``, ``gain``, ``cost``, from ``look``    |
| account                        | ``State.account``                                                      |
| certificates                   | ``_certify``, ``engines/certificates.py``                              |
| a round                        | ``engines/balanced_rounds.py``                                         |

What is proved and what is only measured is in docs/balanced.md.
"""

from __future__ import annotations

import hashlib
import math
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Floats, Ints
from recurrank.catalogue.rows import one_thread
from recurrank.design.basis import pivots_by
from recurrank.rankers.engines.balanced_rounds import (
    ANSWERS,
    CERTIFIED,
    KEY,
    NEXT,
    POSITION,
    State,
    learn,
    propensity,
    rank,
    recall,
    served,
)
from recurrank.rankers.engines.certificates import Alone, Block, divided
from recurrank.rankers.engines.coordinates import Coordinates
from recurrank.rankers.engines.pieces import farthest, leaders_first
from recurrank.rankers.engines.posterior import candidates, look
from recurrank.rankers.engines.profiling import profiled
from recurrank.rankers.engines.propensity import by_tried_items
from recurrank.rankers.knowledge import Knowledge, KnownBlock
from recurrank.rankers.options import Delta, Option
from recurrank.rankers.prior import BelievedBefore, Prior, combine
from recurrank.rankers.ranker import Items, Seed, register
from recurrank.rankers.restocking import Restocking
from recurrank.rankers.states import flatten
from recurrank.rankers.stock import Stock

SAMPLES = 64
"""Samples drawn at each estimate, for all rounds until the next one."""
GROW, LEAST = 0.01, 32
"""Answers until the next estimate: the share GROW of those so far, and at least LEAST."""
LARGE, LARGE_SAMPLES, LARGE_GROW = 1024, 32, 0.25
"""A block with more items is large: an estimate reads them all, so it draws fewer samples and waits for more answers."""
ANY_SIZE = 1 << 62
"""Makes no block large, as in version 0.1.0."""
CERTIFY = 1.1
"""Blocks are certified when the answers have grown by this factor."""
NARROW, WIDE = 1.0, (1.0, 2.0)
"""Standard deviations of samples: of usual rounds, and of balance rounds, in turn."""
BETA = 5.0
"""How many confidence widths a difference must exceed to be certified, where the setting is "tuned"."""
LEAST_VARIANCE = 0.02


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
    compiled_rank, compiled_learn = rank, learn
    compiled_served = served
    compiled_recall = recall
    compiled_propensity, compiled_conditional = propensity, by_tried_items
    from_catalogue = ("features",)

    state: State
    large: int = LARGE
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
        order = self.alive.astype(np.int32)
        members = None if len(order) == len(self.catalogue.features) else order
        self._coordinates = Coordinates.of(
            self.catalogue.features, members, self.catalogue.scales, pivots_by(self.rules), self.catalogue.precise
        )
        order = order[self.rng.permutation(len(order))]
        in_support = np.isin(order, self._coordinates.support)  # a first slate of items that differ much cannot be all bad
        others = order[~in_support]
        if len(order) > self.large:
            others.sort()  # read in the order of memory
        order = np.concatenate([order[in_support], others])
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
    def begin_with(self, stock: Stock) -> None:
        """Let all items compete for all positions again, judged by the clicks at position 1, and certify them at once.

        Nothing stands above position 1: its data hold whatever else is shown. Answers to earlier slates are not learned from,
        unless their marks are :meth:`carried`.
        """
        state, before, same = self.state, self._coordinates, self.unchanged(stock)
        self._coordinates = before.after(stock.features, stock.alive, same, stock.precise)
        change = before.back @ self._coordinates.map  # x @ map = (x @ old map) @ change
        if self._coordinates is before:
            change = np.eye(len(change))
        weight = np.zeros(len(stock.features))  # nothing is learned from an item that is gone
        weight[stock.alive] = 4.0
        weight[same] = state.weight[same]
        kept = np.concatenate([block.items[np.isin(block.items, same)] for block in self.blocks])
        items = np.concatenate([kept, np.setdiff1d(stock.alive, kept)])
        self.catalogue = stock
        self.blocks = [Block(self._key(0, kept[:0]), 0, self.positions, items.astype(np.int32))]
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

    def carried(self, marks: Ints) -> Ints:
        """Clicks at position 1 go to its data set under its present key: nothing is above them, whatever else changed."""
        first = marks[:, 1] & POSITION == 0
        return np.where(first[:, None] & [True, False], self._key(0, np.empty(0, np.int32)), marks)

    def _key(self, first: int, above: NDArray[np.int32]) -> int:
        """The key of a data set in slates: a digest of its position, of the set of items above it, and of all items."""
        among = f"{self.catalogue.fingerprint}/" if self.restocked else ""
        content = f"{among}{first}:".encode() + np.sort(above).astype("<i4").tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") >> 1

    def follow(self, rules: int) -> None:
        super().follow(rules)
        self.large = ANY_SIZE if rules == 1 else LARGE

    def knowledge(self) -> Knowledge:
        blocks = [KnownBlock(number, block.first, block.width, block.size) for number, block in enumerate(self.blocks)]
        return Knowledge(blocks, self.state.leaders.tolist())

    def _least(self, answers: int) -> int:
        """Smallest number of answers until the next estimate: few while a prior that may be wrong decides what is shown."""
        return LEAST if self._believed is None or answers >= 2 * LEAST else LEAST // 4

    def _large(self) -> bool:
        """Whether a block has so many items that reading them dominates the cost of an estimate."""
        return any(block.size > self.large for block in self.blocks)

    def _estimate(self) -> tuple[Floats, Floats]:
        """Theta from all data sets and the prior, and the information that is left when the scales are profiled out."""
        theta, left, self._scales = profiled(self.state.moments, self.state.sums)
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
        table, leaders = np.zeros((count, 4), np.int64), np.zeros(self.positions, np.int64)
        first, asked = np.zeros((count, samples), np.int64), np.full((count, samples + 1), -1)
        gain, cost = np.zeros((count, samples + 1)), np.zeros((count, samples + 1))
        rows = {int(key): row for row, key in enumerate(state.key)}
        for b, block in enumerate(self.blocks):
            large = block.size > self.large
            if not large:
                items = block.items[candidates(state.features, block.items, theta, spread, max(WIDE) * radius, block.width)]
            elif ordered:
                items = block.items
            else:
                items = leaders_first(state.features, block.items, theta, block.width)
            leaders[block.first : block.first + block.width] = items[: block.width]
            row = rows.get(block.key, -1) if len(block.items) > 1 else -1
            table[b] = (block.key, block.first, block.width, row)
            if row < 0:
                continue
            own = worth[block.first : block.first + block.width]
            look(state.features, items, not large, own, theta, narrow, wide, first[b], asked[b], gain[b], cost[b])
            self._insure(block, row, own, theta, ordered, asked[b], gain[b], cost[b])
            if self.confidence == "tuned" and state.clock[ANSWERS] > 100:
                # of a large block, those that may be shown first before the next estimate
                varied = np.unique(np.append(first[b], asked[b][asked[b] >= 0])) if large else items
                self._vary(varied, theta, spread, self._scales[row] or 1.0)
        self.state = state._replace(block=table, leaders=leaders, first=first, asked=asked, gain=gain, cost=cost)

    def _sample(self, dim: int, samples: int, radius: float) -> Floats:
        """Standard normal columns, cut off at the radius."""
        drawn = self.rng.standard_normal((dim, samples))
        cut: Floats = drawn * np.minimum(1.0, radius / np.linalg.norm(drawn, axis=0))
        return cut

    def _insure(
        self, block: Block, row: int, worth: Floats, theta: Floats, fresh: bool, asked: Ints, gain: Floats, cost: Floats
    ) -> None:  # fmt: skip
        """The item whose difference from the leader is least certain, and the most that this may cost per round."""
        inverse, _, beta = self._single(row)
        if block.size <= self.large:
            apart = self.state.features[block.items] - self.state.features[block.items[0]]
            widths = np.sqrt(np.maximum(((apart @ inverse) * apart).sum(axis=1), 0.0))
            index = int(np.argmax(widths))
            least, width = int(block.items[index]), float(widths[index])
        elif fresh and block.least is not None:
            least, width = block.least
        else:
            index, width = farthest(self.state.features, block.items, inverse)
            least = int(block.items[index])
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
        """Carry data sets and accounts over to the present blocks: a data set lasts while the set above it is the same."""
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
        if self.restocked:
            arrays |= self._coordinates._asdict()
        return values, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        super().unpack(values, arrays)
        kept = enumerate(values["blocks"])
        self.blocks = [Block(key, first, width, arrays[f"items.{b}"]) for b, (key, first, width) in kept]
        self._scales, self.due = np.array(values["scales"]), values["due"]
        if self.restocked:
            self._coordinates = Coordinates(*(arrays[name] for name in Coordinates._fields))
            self.state = self.state._replace(features=self._coordinates.points(self.catalogue.features))

    _scales: Floats = np.ones(1)


register(State, Balanced)

"""RecurRank: Li, Lattimore, Szepesvari, *Online Learning to Rank with Features* (ICML 2019), Algorithm 1.

The positions are partitioned into blocks of neighbours. Each block explores a few items at its first position, in
proportion to an experimental design, and shows its best-known items in order below. Once each explored item a was
answered T(a) times, the block estimates the attraction of all its items (up to one unknown factor, the examination of
its first position), drops and orders them, splits where estimates are far apart, and its parts start the next phase.

| paper                          | code                                                                   |
|--------------------------------|------------------------------------------------------------------------|
| ell, Delta_ell = 2^-ell        | ``phase``, ``_precision(phase)``                                       |
| delta_ell                      | ``delta / (2 K ell (ell + 1))``, so that sum_ell 2 K delta_ell = delta |
| A = (a_1, a_2, ...)            | ``Block.leaders``, its first m in order, and ``Block.members``, the set |
| K = (k, ..., k + m - 1)        | ``Block.first`` (from 0) and ``Block.width``                           |
| pi, and d in T(a)              | the design's ``weights``, and ``value`` (its largest leverage, D)      |
| T(a)                           | ``Block.visits``; ``State.short`` is what is left of it                |
| D = {(beta, zeta)}             | ``Block.visits`` and ``State.clicks`` of each explored item            |
| V, S, theta_hat = V^+ S        | ``_estimate``                                                          |
| epsilon_i, u_i, A_i, K_i       | ``engines/splitting.py``; what is asked for: ``engines/asking.py``     |

Guarantee (Theorem 1): with delta = 1/sqrt(T), regret at most C K sqrt(d T log(L T)) under every click model that
satisfies Assumptions 1 to 3 (``recurrank.clicks.assumptions`` checks them) with attraction linear in the features.

Where this departs from the letter of Algorithm 1, and why, is in docs/deviations.md: the elimination rule of the proof
(``elimination="literal"`` has the pseudocode's), D for d, blocks of one item, and answers that are late or lost.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot
from recurrank.catalogue.rows import SMALLEST_SCALE, Rows, one_thread, products
from recurrank.catalogue.scan import Best
from recurrank.design.basis import basis_of, pivots_by, rebase
from recurrank.design.optimal import optimal_design
from recurrank.design.spanner import spanner_design
from recurrank.rankers.blocks import BLOCK_ARRAYS, BLOCK_VALUES, CLOSED_VALUES, Block, ClosedBlock, packed, unpacked
from recurrank.rankers.engines.asking import (
    KEY,
    START,
    STOP,
    Feedback,
    State,
    answered,
    asked,
    assembled,
    draw,
    drop,
    propensity,
    recall,
    served,
)
from recurrank.rankers.engines.placing import show_leaders, show_tried
from recurrank.rankers.engines.propensity import FIRST, WIDTH, by_tried_items
from recurrank.rankers.engines.splitting import split
from recurrank.rankers.knowledge import Knowledge, KnownBlock
from recurrank.rankers.options import Delta, Option
from recurrank.rankers.prior import BelievedBefore, Prior
from recurrank.rankers.ranker import Buffer, Items, Seed, register
from recurrank.rankers.restocking import Restocking
from recurrank.rankers.states import flatten
from recurrank.rankers.stock import Stock

ESTIMATE_DECIMALS = 10
LEARNED, SURPLUS, LATE = 0, 1, 2


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    """Line 4: one explored item at each block's first position, the leaders in order below it."""
    marks, marked = slate.marks, 0
    for b in range(state.block.shape[0]):
        k, stop = state.block[b, FIRST], state.block[b, FIRST] + state.block[b, WIDTH]
        entry = draw(state, rng, b)
        if entry >= 0:
            marks[marked, 0], marks[marked, 1] = state.block[b, KEY], entry - state.block[b, START]
            marked += 1
            # "put available items in {a_1, ..., a_m} sequentially"
            show_tried(slate.items, state.leaders, k, stop, state.explored[entry])
        else:
            show_leaders(slate.items, state.leaders, k, stop)
    if marked < len(marks):
        marks[marked, 0] = -1


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    """Lines 4-5: one more (beta, zeta) for each block that is still open. True when a block has all its answers."""
    due, learned = False, 0
    for i in range(len(slate.marks)):
        if slate.marks[i, 0] < 0:
            break
        b, entry = asked(state, slate, i)
        if b < 0:
            state.counts[LATE] += 1
            continue
        k = state.block[b, FIRST]
        if state.short[entry] == 0 or k >= len(clicks):  # enough is known, or it was never on the screen
            state.counts[SURPLUS] += state.short[entry] == 0
            answered(state, b, entry)
            continue
        if state.out[entry] > 0:  # one answer fewer is missing and one slate fewer is out: as many are left to request
            state.out[entry] -= 1
        else:
            state.left[entry] -= 1
            state.open[b] -= 1
        state.short[entry] -= 1
        state.missing[b] -= 1
        state.clicks[entry] += clicks[k]
        learned += 1
        due |= state.missing[b] == 0
    state.counts[LEARNED] += learned
    return due


class RecurRank(Restocking):
    """Rank a catalogue with features, learning from clicks under an unknown click model.

    >>> import recurrank as rr
    >>> ranker = rr.RecurRank(rr.synthetic(items=100, dim=3, seed=0).features, positions=4, rounds=1000, seed=0)
    >>> slate = ranker.rank()
    >>> ranker.learn(slate, [True, False, False, False])
    >>> ranker.blocks[0].phase, list(ranker.blocks[0].positions), len(ranker.blocks[0].items)
    (1, [0, 1, 2, 3], 100)

    """

    name = "recurrank"
    reference = "Li, Lattimore, Szepesvari 2019"
    believes = "general click model"
    uses_features = True
    regret_bound = "O(K sqrt(d T log(L T)))"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    counted_in_0_1_0 = True
    compiled_drop = drop
    compiled_recall = recall
    compiled_propensity, compiled_conditional = propensity, by_tried_items

    state: State

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        delta: Delta = None,
        design: Annotated[
            Literal["optimal", "spanner"],
            Option(
                "where blocks explore: G-optimal, which the guarantee is for, or a volumetric spanner, which often loses less"
            ),
        ] = "optimal",
        elimination: Annotated[
            Literal["proof", "literal"], Option("the rule that the regret proof uses, or lines 6-8 as printed")
        ] = "proof",
        tolerance: Annotated[float, Option("of the G-optimal design, relative", least=1e-6)] = 0.05,
        prior: BelievedBefore = None,
    ) -> None:
        options = {"delta": delta, "design": design, "elimination": elimination, "tolerance": tolerance}
        believed = self._settings(features, positions, rounds, seed, prior, **options)
        # "started by calling RecurRank(1, L, (1, ..., K)) where the order of L is random". Only its first K items matter,
        # and it may be any order: a first slate of explored items, which differ as much as items can, cannot be all bad.
        members = self._whole()
        explored, visits = self._design(members, len(self.catalogue), 1)
        leaders = self._random_leaders(explored) if believed is None else self._best_by(believed)
        block = self._open(0, 1, 0, leaders, members, (explored, visits), parent=None)
        self._blocks: list[Block] = [block]
        self._next_id = 1
        self.state = assembled(self._blocks, {}, Feedback(0, 0, 0))

    def _settings(
        self, features: Items, positions: int, rounds: int, seed: Seed, prior: Any = None, **options: Any
    ) -> Prior | None:
        super().__init__(features, positions, rounds, seed)
        self.delta, self.design, self.elimination, self.tolerance = self.record(**options)
        self.history: list[ClosedBlock] = []
        return self.record_prior(prior)

    @property
    def blocks(self) -> list[Block]:
        """What it knows: the partition of the positions, with each block's phase, items in order and progress."""
        for b, block in enumerate(self._blocks):
            wanted = int(block.visits.sum())
            block.progress = 1 - int(self.state.missing[b]) / wanted if wanted else 1.0
        return list(self._blocks)

    def knowledge(self) -> Knowledge:
        now = [KnownBlock(b.id, b.first, b.width, b.size, b.phase, b.progress, b.parent, b.opened) for b in self.blocks]
        past = [KnownBlock(b.id, b.first, b.width, b.items, b.phase, None, b.parent, b.opened, b.closed) for b in self.history]
        return Knowledge(now, self.state.leaders.tolist(), past)

    @property
    def feedback(self) -> Feedback:
        """How many answers were learned from, were surplus or came late."""
        return Feedback(*(int(count) for count in self.state.counts))

    def plan(self) -> None:
        """Close every block that has all its answers and open its parts (line 8); all of that or, interrupted, nothing."""
        after: list[Block] = []
        closed: list[ClosedBlock] = []
        carried: dict[int, tuple[Ints, Ints, Ints]] = {}
        fresh = self._next_id
        for b, block in enumerate(self._blocks):
            part = slice(int(self.state.block[b, START]), int(self.state.block[b, STOP]))
            if len(block.visits) and self.state.missing[b] == 0:
                record, parts = self._split(block, self.state.clicks[part], fresh)
                closed.append(record)
                after += parts
                fresh += len(parts)
            else:
                after.append(block)
                carried[block.id] = (self.state.short[part], self.state.out[part], self.state.clicks[part])
        self._blocks, self._next_id, self.state = after, fresh, assembled(after, carried, self.feedback)
        self.history += closed

    def copy(self, seed: Seed = None, *, into: Self | None = None) -> Self:
        other = super().copy(seed, into=into)
        other._blocks, other.history = [replace(block) for block in self._blocks], list(self.history)
        return other

    def begin_with(self, stock: Stock) -> None:
        """Keep the blocks above the first one that loses an item; open one block of all other items, in phase 1, below them.

        If items come or change, all items are in that block: they compete for every position. It begins with the last order.
        """
        same, kept = self.unchanged(stock), list[Block]()
        if len(same) == len(stock):  # items left, none came
            for block in self.blocks:
                if not np.isin(block.items, same).all():
                    break
                kept.append(replace(block, members=np.sort(block.items)))
        carried = {}
        for b, block in enumerate(kept):
            part = slice(int(self.state.block[b, START]), int(self.state.block[b, STOP]))
            carried[block.id] = self.state.short[part], self.state.out[part], self.state.clicks[part]
        self.catalogue = stock
        first = sum(block.width for block in kept)
        if first < self.positions:
            held = np.concatenate([block.items for block in kept]) if kept else np.empty(0, np.int32)
            members = np.setdiff1d(stock.alive, held).astype(np.int32)
            explored, visits = self._design(members, len(members), 1)
            before = [item for item in self.state.leaders[first:].tolist() if item in members]
            shown = self._filled([*before, *np.setdiff1d(explored, before).tolist()], members, self.positions - first)
            kept.append(self._open(self._next_id, 1, first, shown, members, (explored, visits), parent=None))
            self._next_id += 1
        self._blocks, self.state = kept, assembled(kept, carried, self.feedback)

    def _whole(self) -> NDArray[np.int32] | None:
        """The members of a block of all items: None if every row is an item."""
        return self.catalogue.alive.astype(np.int32) if isinstance(self.catalogue, Stock) else None

    def _best_by(self, prior: Prior) -> Ints:
        """The K best items by the prior, in order."""
        best, members = Best(self.positions), self._whole()
        products(self._rows(members), prior.theta(), ESTIMATE_DECIMALS, best)
        indices = best.found()[0].astype(np.int64)
        return indices if members is None else members[indices].astype(np.int64)

    def _random_leaders(self, explored: Ints) -> Ints:
        """K items in random order: explored ones, then others if these are too few."""
        return self._filled([int(item) for item in self.rng.permutation(explored)], self._whole(), self.positions)

    def _filled(self, chosen: list[int], members: NDArray[np.int32] | None, wanted: int) -> Ints:
        """The first ``wanted`` of these items, and others at random if they are fewer."""
        chosen = chosen[:wanted]
        while len(chosen) < wanted:
            item = int(self.rng.integers(len(self.catalogue) if members is None else len(members)))
            item = item if members is None else int(members[item])
            if item not in chosen:
                chosen.append(item)
        return np.array(chosen, np.int64)

    def _open(
        self,
        identity: int,
        phase: int,
        first: int,
        leaders: Ints,
        members: NDArray[np.int32] | None,
        plan: tuple[Ints, Ints],
        parent: Block | None,
    ) -> Block:
        """A block with this plan of what to try, and how often."""
        size = len(self.catalogue) if members is None else len(members)
        above = (-1, identity) if parent is None else (parent.id, parent.key)
        digest = hashlib.blake2b(repr((phase, first, above[1])).encode() + leaders.tobytes(), digest_size=8)
        if members is not None:
            digest.update(members.data)
        key = int.from_bytes(digest.digest(), "big") >> 1  # not negative: -1 ends the marks
        return Block(identity, key, phase, first, len(leaders), leaders, members, size, *plan, above[0], self.served)

    def _design(self, members: NDArray[np.int32] | None, size: int, phase: int) -> tuple[Ints, Ints]:
        """Lines 1-3: a design on the items, which of them to try and how often; empty where there is nothing to find out."""
        rows = self._rows(members)
        if size == 1 or not (rows.scales() >= SMALLEST_SCALE).any():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        best, pivot = self.design == "optimal", pivots_by(self.rules)
        design = optimal_design(rows, self.tolerance, pivot) if best else spanner_design(rows, self.rng)
        # T(a) = ceil( D pi(a) / (2 Delta^2) log(|A| / delta_ell) ), delta_ell = delta / (2 K ell (ell + 1))
        delta = self.delta / (2 * self.positions * phase * (phase + 1))
        value = design.value if best else design.rank  # deviations.md, "the spanner's visits"
        wanted = value * design.weights / (2 * _precision(phase) ** 2) * math.log(size / delta)
        often = np.argsort(-wanted, kind="stable")  # the most wanted first: the draw finds them first
        indices = design.support[often]
        explored = indices if members is None else members[indices].astype(np.int64)
        return explored, np.ceil(np.minimum(wanted[often], 2.0**52)).astype(np.int64)

    def _rows(self, members: NDArray[np.int32] | None) -> Rows:
        """The features of a block's items; the whole catalogue is read in place."""
        catalogue = self.catalogue
        return Rows(catalogue.features, members, catalogue.scales if members is None else None, catalogue.precise)

    def _split(self, block: Block, clicks: Ints, fresh: int) -> tuple[ClosedBlock, list[Block]]:
        """Lines 5-8: estimate, order, eliminate, cut, and open the parts that have positions, numbered from ``fresh``."""
        theta, parts = self._judge(block, clicks)
        of_block = (block.id, block.phase, block.first, block.width, block.size, block.parent, block.opened)
        opened, first, phase = list[Block](), block.first, block.phase + 1
        for leaders, members in parts:
            size = len(self.catalogue) if members is None else len(members)
            plan = self._design(members, size, phase)
            opened.append(self._open(fresh + len(opened), phase, first, leaders, members, plan, block))
            first += len(leaders)
        return ClosedBlock(*of_block, closed=self.served, theta=theta), opened

    def _judge(self, block: Block, clicks: Ints) -> tuple[Floats, list[tuple[Ints, NDArray[np.int32] | None]]]:
        """Lines 5-8 up to the recursion: theta_hat, and each part's leaders and members."""
        theta = self._estimate(block, clicks)
        best = Best(block.width)
        # Rounded, so that the last bits decide nothing, and results are the same on every machine.
        estimates = products(self._rows(block.members), theta, ESTIMATE_DECIMALS, best)
        parts = split(estimates, best.found()[0], _precision(block.phase), self.elimination)
        if block.members is not None:
            parts = [(block.members[leaders].astype(np.int64), block.members[indices]) for leaders, indices in parts]
        everything = len(self.catalogue) if block.members is None else -1
        return theta, [(leaders, None if len(members) == everything else members) for leaders, members in parts]

    @one_thread()
    def _estimate(self, block: Block, clicks: Ints) -> Floats:
        """Line 5: theta_hat = V^+ S with V = sum T(a) a a', S = sum clicks(a) a, as least squares on sqrt(T(a)) a.

        On the span of the items any solution gives the same estimates. It is found in a basis made of explored items, the
        one in which the design was judged, so that an item far from all others costs no digits.
        """
        explored = Rows(self.catalogue.features).take(block.explored)
        basis, _ = basis_of(explored, self.catalogue.scales, self.catalogue.precise)
        points = explored @ basis.to_coordinates
        change, _ = rebase(points)
        root = np.sqrt(block.visits)
        solution = np.linalg.lstsq((points @ change) * root[:, None], clicks / root, rcond=None)[0]
        theta: Floats = basis.to_coordinates @ (change @ solution)
        return theta

    @classmethod
    def restore(cls, features: Items, **arguments: Any) -> Self:
        ranker = cls.__new__(cls)  # without the first block, whose design would be computed for nothing
        ranker._settings(features, **arguments)
        return ranker

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        arrays = dict(flatten(self.state, self.from_catalogue))
        for block in self._blocks:
            arrays |= {f"{name}.{block.id}": getattr(block, name) for name in BLOCK_ARRAYS}
            arrays[f"members.{block.id}"] = packed(block.members, len(self.catalogue.features))
        arrays |= {f"theta.{closed.id}": closed.theta for closed in self.history}
        values = {
            "next": self._next_id,
            "blocks": [{name: getattr(block, name) for name in BLOCK_VALUES} for block in self._blocks],
            "history": [{name: getattr(closed, name) for name in CLOSED_VALUES} for closed in self.history],
        }
        return values, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.state = State(*(arrays[f"state.{name}"] for name in State._fields))
        wanted = self.state.block[:, STOP] > self.state.block[:, START]
        self.due = bool((wanted & (self.state.missing == 0)).any())
        self._next_id, self._blocks = values["next"], []
        for block in values["blocks"]:
            kept: dict[str, Any] = {name: arrays[f"{name}.{block['id']}"] for name in BLOCK_ARRAYS}
            kept["members"] = unpacked(arrays[f"members.{block['id']}"], len(self.catalogue.features))
            self._blocks.append(Block(**block, **kept))
        self.history = [ClosedBlock(**closed, theta=arrays[f"theta.{closed['id']}"]) for closed in values["history"]]


def _precision(phase: int) -> float:
    """Delta_ell = 2^-ell."""
    return 2.0**-phase


register(State, RecurRank)

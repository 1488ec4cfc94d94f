"""What every ranker of requests has: candidates by features or id, rules, slates that carry what they showed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, Ints, as_count
from recurrank.catalogue import Catalogue, as_catalogue
from recurrank.rankers.engines.requests import EXPLOITED, Shown, Work
from recurrank.rankers.engines.shortlist import leading
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Ranker, Seed
from recurrank.rankers.request import (
    LARGEST,
    Answered,
    Choice,
    Name,
    Offered,
    RequestSlate,
    Rules,
    as_context,
    as_pins,
    as_positions,
    as_rows,
    as_set,
    as_share,
    bounded,
    counted,
    distinct,
    ids_of,
    joint,
    joint_size,
    largest_of,
    listed,
    rules,
)
from recurrank.rankers.stock import Stock
from recurrank.slate import Slate

LARGE = 1024
"""With more items than this, the whole catalogue is ranked from a shortlist."""
SPARE = 10
"""How many items a request may exclude and pin before it reads the whole catalogue."""


Dim = Annotated[int | None, Option("how many features a candidate has", least=1, usually=lambda ranker: ranker.catalogue.dim)]
ContextSize = Annotated[int, Option("how many numbers describe a visitor; 0 for none", least=0, most=10_000)]
Interactions = Annotated[
    Literal["none", "outer"], Option("features of item and visitor side by side, or with all their products as well")
]


class RequestRanker(Ranker):
    """A ranker in which every request may bring its own candidates. Subclasses are the algorithms.

    The state of an algorithm has at least ``features`` (of the catalogue), ``short`` (the items that matter when the whole of
    it is ranked), ``account`` (of exploration) and ``work``.
    """

    compiled_choose: ClassVar[Callable[..., Any]]
    """choose(state, rng, features, rows, count, slots, explore, chosen): candidates for the free positions."""
    compiled_take: ClassVar[Callable[..., Any]]
    """take(state, shown, clicks) -> bool: learn from a slate; True when a decision is due."""
    tells: ClassVar[bool] = False
    """Whether it can tell how probable a slate was."""
    by_decisions: ClassVar[bool] = False
    """Whether answers change what is shown only by decisions and by the account of exploration."""
    items_change = True
    uses_features = True
    from_catalogue: ClassVar[tuple[str, ...]] = ("features", "work")

    catalogue: Stock

    def begin(
        self, features: ArrayLike | Catalogue | None, dim: int | None, positions: int, rounds: int, seed: Seed, context: int,
        interactions: str,
    ) -> None:  # fmt: skip
        """Begin with what all of them are made with."""
        if features is None and dim is None:
            raise ValueError("dim: missing; give a catalogue, or how many features a candidate has")
        stock = Stock.empty(as_count("dim", dim)) if features is None else Stock.of(as_catalogue(features))
        if not isinstance(features, Stock):  # a stock's items were checked when they came
            bounded("features", stock.features, LARGEST)
        self.short_slates = features is None or isinstance(features, Stock)
        Ranker.__init__(self, stock, positions, rounds, seed)
        if dim not in (None, stock.dim):
            raise ValueError(f"dim: {dim} is not the {stock.dim} features of the catalogue; leave it out")
        _, self.context, self.interactions = self.record(dim=dim, context=context, interactions=interactions)
        self.segments: dict[str | None, int] = {None: 0}
        self.decisions = 0  # their number since it was made or loaded

    def rank(
        self,
        features: ArrayLike | None = None,
        *,
        candidates: Sequence[Name] | None = None,
        context: ArrayLike | None = None,
        segment: str | None = None,
        exclude: Iterable[Name] = (),
        pin: Mapping[int, Name] | None = None,
        positions: int | None = None,
        explore: float = 1.0,
        propensity: bool = True,
    ) -> Slate:
        """The slate for a request: of candidates whose features it brings, of those that it names, or of the whole catalogue.

        Args:
            features: one row per candidate; ``slate.items`` are rows of it.
            candidates: ids of the catalogue (indices where it has no ids); or, with ``features``, what to call its rows.
            context: of the visitor, where the ranker was made with one.
            segment: a name for requests that are learned separately: the device, for example, by which ``anchored`` learns
                examination; for ``club-cascade`` the user.
            exclude: candidates that must not be shown.
            pin: the candidate that must be shown at each of these positions, counted from 0.
            positions: how many positions to fill, at most the ranker's.
            explore: the share of the usual exploration that is allowed, from 0 to 1.
            propensity: whether to compute how probable the slate was, where the algorithm can tell.

        """
        out, pins = listed("exclude", exclude), as_pins(pin)
        plain = features is None and candidates is None and context is None and segment is None and not out and not pins
        if plain and positions is None and explore == 1 and not self.context and len(self.catalogue) >= self.positions:
            return self._whole_slate(propensity)
        return self._slate(
            self.answered(
                features, candidates=candidates, context=context, segment=segment, exclude=out, pin=pins,
                positions=positions, explore=explore, propensity=propensity,
            )
        )  # fmt: skip

    def _whole_slate(self, tell: bool) -> RequestSlate:
        """A slate of the whole catalogue, by the functions that simulations call; they always compute probabilities."""
        self._settle()
        before = float(self.state.account[0])
        items, marks, probabilities = self._draw()
        change, by_index = float(self.state.account[0]) - before, self.catalogue.names
        names = tuple([by_index[item] for item in items.tolist()])
        propensity, joint, conditional = (tell and probabilities) or (None, None, None)
        slate = object.__new__(
            RequestSlate
        )  # its constructor, which sets one attribute after the other, takes as long as drawing
        vars(slate).update(
            items=items, marks=marks, number=self.served - 1, ranker=self.identity, ids=ids_of(names), propensity=propensity,
            joint=joint, conditional=conditional, features=self.catalogue.features.take(items, axis=0),
            free=self.state.work.shown.free.copy(), segment=None, done=max(int(marks[0, 0]), EXPLOITED), change=change,
            names=names,
        )  # fmt: skip
        return slate

    def answered(
        self,
        features: ArrayLike | None = None,
        *,
        candidates: Sequence[Name] | None = None,
        context: ArrayLike | None = None,
        segment: str | None = None,
        exclude: Iterable[Name] = (),
        pin: Mapping[int, Name] | None = None,
        positions: int | None = None,
        explore: float = 1.0,
        propensity: bool = True,
    ) -> Answered:
        """What :meth:`rank` would show, for callers that track slates themselves; the arguments are the same."""
        self._settle()
        size, share = as_positions(positions, self.positions), as_share("explore", explore)
        exclude, pin = listed("exclude", exclude), as_pins(pin)
        if features is None:
            exclude = self.catalogue.as_names("exclude", exclude)
            pin = dict(zip(pin, self.catalogue.as_names("pin", list(pin.values())), strict=True))
        offered = self._candidates(features, candidates, exclude, pin)
        visitor = as_context(context, self.context)
        if len(visitor):
            offered = offered.with_features(joint(offered.features[offered.rows], visitor, self.interactions))
        allowed = rules(offered.names, exclude, pin, size)
        if not allowed.size:
            raise ValueError("exclude: no candidate is left; leave at least one")
        return self._answer(offered, allowed, self._as_segment(segment), share, propensity)

    def _candidates(
        self, features: ArrayLike | None, candidates: Sequence[Name] | None, exclude: list[Name], pin: Mapping[int, Name]
    ) -> Offered:
        stock = self.catalogue
        if features is not None:
            rows = as_rows(features, stock.dim, LARGEST)
            every = counted(len(rows))
            if candidates is None:
                return Offered(range(len(rows)), every, rows, every)
            if isinstance(candidates, set | frozenset):
                raise ValueError("candidates: a set has no order; give a list, one id per row of features")
            names = listed("candidates", candidates)
            distinct("candidates", names)
            if len(names) != len(rows):
                raise ValueError(f"candidates: {len(names)} ids for {len(rows)} rows of features; give one id per row")
            return Offered(names, every, rows, every)
        if not len(stock):
            raise ValueError("features: missing; the ranker has no items, so a request has to bring its candidates' features")
        if candidates is None:
            items = self._without_scanning(exclude, pin)
            return Offered([stock.names[item] for item in items.tolist()], items, stock.features, items)
        names = stock.as_names("candidates", candidates)
        items = stock.indices_of("candidates", names)
        if not len(items):
            raise ValueError("candidates: none; name at least one")
        return Offered(names, items, stock.features, items)

    def _without_scanning(self, exclude: list[Name], pin: Mapping[int, Name]) -> Ints:
        """The items that can be shown to a request for the whole catalogue: those of the shortlist, and the pinned ones.

        The shortlist has the best SPARE + K under every vector that the request may be ranked by. The best K under one of them,
        without m items, are among its best K + m. So it is exact for m <= SPARE; for more, all items are read.
        """
        stock, short = self.catalogue, self.state.short
        if not len(short) or len(exclude) + len(pin) > SPARE:
            return stock.alive
        pinned = [stock.index[name] for name in as_set("pin", pin.values()) if name in stock.index]
        return np.union1d(short, pinned).astype(np.int64)

    def _answer(self, offered: Offered, allowed: Rules, segment: str | None, share: float, tell: bool) -> Answered:
        asking = self.index_of(segment)
        account, slots, tells = self.state.account, allowed.slots, tell and self.tells
        before, choice = float(account[0]), Choice(slots)
        if len(slots):
            rows = offered.rows if allowed.all else offered.rows[allowed.rows]
            self.make_room(len(rows))
            self.state.work.asks[0] = asking
            choice = self._choose(offered.features, rows, slots, share, tells)
        shown, marginal = choice.chosen, choice.marginal
        if not allowed.all:
            shown, marginal = np.empty(allowed.size, np.int64), np.ones(allowed.size)
            shown[slots] = allowed.rows[choice.chosen]
            for position, index in allowed.pinned.items():
                shown[position] = index
            if choice.marginal is not None:
                marginal[slots] = choice.marginal
        names = offered.names
        self.served += 1
        return Answered(
            [names[index] for index in shown.tolist()], offered.items.take(shown),
            offered.features.take(offered.rows.take(shown), axis=0),
            sorted(allowed.pinned), segment, choice.done, float(account[0]) - before, marginal if tells else None,
            choice.joint if tells else None, len(names),
        )  # fmt: skip

    def _slate(self, answered: Answered) -> RequestSlate:
        size, names = len(answered.names), tuple(answered.names)
        free = np.ones(size, np.bool_)
        free[answered.pinned] = False
        return RequestSlate(
            items=answered.items, marks=np.full((size, 2), -1, np.int64), number=self.served - 1, ranker=self.identity,
            ids=ids_of(names), features=answered.features, free=free, segment=answered.segment, done=answered.done,
            change=answered.change, names=names, propensity=answered.propensity, joint=answered.joint,
        )  # fmt: skip

    def _choose(self, features: Floats, rows: Ints, slots: Ints, share: float, tell: bool) -> Choice:
        """Candidates, which are ``rows`` of the features, for these positions; if ``tell``, also how probable that was."""
        chosen = np.zeros(len(slots), np.int64)
        done, _ = type(self).compiled_choose(self.state, self.rng, features, rows, len(rows), slots, share, chosen)
        return Choice(chosen, done)

    def drawn_like(self, slate: Slate, **request: Any) -> Slate:
        assert isinstance(slate, RequestSlate)
        self.state.account[0] -= slate.change
        drawn = self.rank(**request, propensity=False)
        if len(drawn) != len(slate):
            raise ValueError(f"slate: {len(slate)} items, but this request shows {len(drawn)}; give the slate's own request")
        return drawn

    def learn(self, slate: Slate, clicks: ArrayLike, seen: ArrayLike | None = None) -> None:
        """Take in the clicks on a slate of this ranker: one boolean per position shown; late, in any order, each slate once.

        ``seen``: which positions were on the screen; what is below the first that was neither seen nor clicked teaches nothing.
        """
        clicked = self._answer_of(slate, clicks, seen)
        assert isinstance(slate, RequestSlate)
        if not len(clicked):
            return
        self._settle()
        shown = Shown(slate.features, slate.free, self.index_of(slate.segment), self.state.work.shown.examined)
        self.due = bool(type(self).compiled_take(self.state, shown, clicked))
        self._settle()

    def adopt(self, slate: Slate) -> None:
        """Register a slate that a copy of this ranker has ranked."""
        self._belongs(slate, slate.number + 1 if isinstance(slate, Slate) else 0)
        assert isinstance(slate, RequestSlate)
        self._settle()
        self.index_of(slate.segment)
        self.state.account[0] += slate.change
        self.served += 1

    def drop(self, slate: Slate) -> None:
        """Say that a slate will never be answered, which changes nothing."""
        self._belongs(slate, self.served)

    def _belongs(self, slate: Slate, served: int) -> None:
        own = isinstance(slate, RequestSlate) and slate.ranker == self.identity and slate.features.shape[1] == self.width
        if not own or slate.number >= served:
            super()._belongs(slate, 0)  # which raises the error

    def resume(self) -> None:
        """Estimate soon and often: another may choose the slates from now on (a roll-out has changed its mode)."""

    def _settle(self) -> None:
        if self.due:
            self.decisions += 1
            super()._settle()

    @property
    def width(self) -> int:
        """How many features compiled code sees of a candidate: its own, the context's and their products."""
        return joint_size(self.catalogue.dim, self.context, self.interactions)

    def add(self, ids: Sequence[Name], features: ArrayLike) -> None:
        """Add items to the catalogue; ValueError, and no change, if one is there already."""
        self._change(self.catalogue.added(ids, features))

    def update(self, ids: Sequence[Name], features: ArrayLike) -> None:
        """Change the features of items of the catalogue."""
        self._change(self.catalogue.updated(ids, features))

    def remove(self, ids: Iterable[Name]) -> None:
        """Remove items from the catalogue; they are not shown again."""
        self.restock(self.catalogue.removed(ids))

    def _change(self, stock: Stock) -> None:
        self.check_scale(stock)
        self.restock(stock)

    def check_scale(self, stock: Stock) -> None:
        """ValueError if an item that is new or changed has larger features than can be learned from."""
        before, features = self.catalogue.features, stock.features
        if largest_of(features) <= LARGEST:
            return
        for row in np.flatnonzero(~(np.abs(features) <= LARGEST).all(axis=1)).tolist():
            if row >= len(before) or not np.array_equal(before[row], features[row]):
                raise ValueError(
                    f"features: {largest_of(features[row]):g}, of {stock.names[row]!r}, is larger than {LARGEST:g}; "
                    "give it in another unit"
                )

    def restock(self, stock: Stock) -> None:
        """Rank other items from now on; the stock is shared, not copied."""
        self.catalogue = stock
        self.state = self.state._replace(features=self._whole())
        self._shortlist()

    def _whole(self) -> Floats:
        """The catalogue's features as compiled code ranks the whole of it: without a context."""
        return self.catalogue.features if not self.context else np.zeros((0, self.width))

    def _shortlist(self) -> None:
        """Find the items that matter until the next estimate, all if they are few.

        Rounds rank by one of a few vectors, so that the best K under each of these are all that can be shown: the union of
        those lists gives the same slates as the whole catalogue. They are longer by SPARE, for requests that leave some out.
        """
        items = self.catalogue.alive if not self.context else np.zeros(0, np.int64)
        vectors = self._vectors()
        if len(items) > LARGE and vectors is not None:
            before = self.state.short
            likely = before[items[np.searchsorted(items, before).clip(max=len(items) - 1)] == before]
            items = leading(self.catalogue.features, items, vectors, min(self.positions + SPARE, len(items)), likely)
        self.state = self.state._replace(short=items)
        self.make_room(len(items))

    def _vectors(self) -> Floats | None:
        """All that the coming rounds may rank by, the constant's coefficient first; None if unknown."""
        return None

    def make_room(self, candidates: int) -> None:
        """Make room for requests of so many candidates."""
        if candidates > len(self.state.work.score):
            self.state = self.state._replace(work=self._work(2 * candidates))

    def _work(self, candidates: int) -> Work:
        return Work.of(candidates, self.positions, self.width, self.width + 2)

    def _as_segment(self, segment: str | None) -> str | None:
        if segment is not None and (not isinstance(segment, str) or not 0 < len(segment) <= 200):
            raise ValueError(f"segment: {segment!r} is not a name; give a string of at most 200 characters")
        return segment

    def index_of(self, segment: str | None) -> int:
        """The index of a segment; most algorithms do not distinguish them."""
        return 0

    def copy(self, seed: Seed = None, *, into: Self | None = None) -> Self:
        other = super().copy(seed, into=into)
        other.segments = dict(self.segments)
        other.state = other.state._replace(work=self._work(len(self.state.work.score)))
        return other

"""What every ranker has: a state, compiled functions over it, and the rare decisions in between.

A ranking algorithm is one file with

    a State               a NamedTuple of arrays, all that changes from round to round;
    rank(state, rng, slate)              compiled: fills slate.items (and slate.marks) for one round;
    learn(state, slate, clicks) -> bool  compiled: takes the clicks in; True when a decision is due. There are fewer clicks than
                                         positions where the lower ones were never on the screen;
    a Ranker subclass     with ``plan``, ordinary Python, which makes that decision.

The simulator and the service run the compiled functions many rounds at a time (:meth:`Ranker.advance`); :meth:`Ranker.rank` and
:meth:`Ranker.learn` call the very same functions one round at a time. Only this class knows whether a decision is due.
"""

from __future__ import annotations

import functools
import hashlib
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_count
from recurrank._compiled import contributes, hot
from recurrank._sources import is_ours
from recurrank.catalogue import Catalogue, as_catalogue
from recurrank.plugins import plainly
from recurrank.rankers.dispatch import Buffer as Buffer
from recurrank.rankers.dispatch import Calls, Round, algorithms, draw, once
from recurrank.rankers.engines.propensity import follows, nothing_to_recall
from recurrank.rankers.knowledge import Knowledge
from recurrank.rankers.options import Configured
from recurrank.rankers.prior import Prior, as_prior
from recurrank.rankers.states import copied, flatten, unflatten
from recurrank.seeds import Given, sequence
from recurrank.seeds import Seed as Seed
from recurrank.slate import Slate, as_booleans, as_items

Items = ArrayLike | Catalogue
"""What a ranker is made on: a matrix with one row per item, or a catalogue."""
RULES = 2
"""Version of the rules by which rankers decide; release 0.1.0 has 1."""


class Ranker(Configured):
    """An algorithm at work on one catalogue. Subclasses are the algorithms; this holds what they share.

    Args:
        features: a matrix with one row per item, or a :class:`~recurrank.Catalogue`.
        positions: K, how many items to show.
        rounds: T, how many rounds are planned.
        seed: the seed of all its random choices; the same seed makes the same choices.

    Attributes:
        catalogue: the items.
        positions: K, how many items a slate shows.
        rounds: T, how many rounds are planned (it sets the confidence; going beyond it breaks nothing).
        served: how many slates have been served.
        state: what changes from round to round, as arrays.

    """

    name: ClassVar[str]
    reference: ClassVar[str]
    believes: ClassVar[str]
    uses_features: ClassVar[bool]
    regret_bound: ClassVar[str]
    compiled_rank: ClassVar[Callable[..., Any]]
    compiled_learn: ClassVar[Callable[..., Any]]
    compiled_served: ClassVar[Callable[..., Any] | None] = None
    """served(state, slate): updates the state for a slate that a copy has served. By default the ranker ranks again, which
    keeps the lists of some algorithms in order and takes about a microsecond."""
    counted_in_0_1_0: ClassVar[bool] = False
    """Whether version 0.1.0 (``rules`` 1) used it, too; there all other algorithms ranked again."""
    compiled_drop: ClassVar[Callable[..., Any] | None] = None
    """drop(state, slate): updates the state for a slate that will never be answered. By default it does nothing."""
    compiled: ClassVar[bool] = True
    """Whether numba compiled these functions; those of a plain Python class (``plain.py``) run in interpreted loops."""
    learns_any_order: ClassVar[bool] = False
    """Whether it learns from orders that others chose. That helps rankers which try few items besides the best order; optimists
    would fill whole slates with what such an order left out (docs/rollout.md)."""
    not_served: ClassVar[str] = ""
    """Why a service cannot use it; empty if it can."""
    compiled_propensity: ClassVar[Callable[..., Any] | None] = None
    """propensity(state, before, slate, marginal) -> joint: see ``engines/propensity.py``; None: not known."""
    compiled_conditional: ClassVar[Callable[..., Any]] = follows
    """conditional(state, slate, marginal, joint, given): the probability of each item given those above it, into ``given``."""
    compiled_recall: ClassVar[Callable[..., Any]] = nothing_to_recall
    """recall(state, before): copy what those probabilities depend on and drawing changes, at most 2 K numbers."""
    from_catalogue: ClassVar[tuple[str, ...]] = ()
    """Fields of the state that follow from the catalogue and never change: copies share them, and they are not saved."""
    tracked: ClassVar[tuple[str, ...]] = ()
    """Large tables of the state, of which its field ``changes`` tells what has changed (``engines/tracking.py``)."""
    items_change: ClassVar[bool] = False
    """Whether items may come and go."""
    short_slates: bool = False
    """Whether a slate may show fewer items than there are positions."""
    _state: Any
    _sharing: weakref.WeakSet[Ranker] | None = None
    """The rankers that share this state until they change it, this one included; None: it is not shared."""
    _calls: Calls | None = None

    def __init__(self, features: ArrayLike | Catalogue, positions: int, rounds: int, seed: Seed) -> None:
        self.catalogue = as_catalogue(features)
        self.positions = as_count("positions", positions)
        self.rounds = as_count("rounds", rounds)
        if len(self.catalogue) < self.positions and not self.short_slates:
            raise ValueError(f"positions: {self.positions} is more than the {len(self.catalogue)} items; show fewer")
        if self.catalogue.gaps and not self.items_change:
            raise ValueError(
                f"features: {self.name!r} needs a catalogue without gaps; make a new one of the items that are left"
            )
        self._sequence = sequence(seed, "ranker")
        self.rng = np.random.Generator(np.random.PCG64(self._sequence))
        self.served = 0
        self.due = False  # whether a decision is to be made before the next round: it stays due if it was interrupted
        self._options: dict[str, Any] = {}
        self.follow(1 if isinstance(seed, Given) else RULES)
        self._round = Round.empty(self.positions)

    def __repr__(self) -> str:
        size = f"{len(self.catalogue):,} items, {self.catalogue.dim} features, {self.positions} positions"
        return f"<{type(self).__name__}: {size}, {self.served:,} slates served>"

    @classmethod
    def takes_any_slate(cls) -> bool:
        """Whether it can tell the probability of, and learn from, a slate that it did not rank."""
        return cls.compiled_propensity is not None

    @property
    def state(self) -> Any:
        """What changes from round to round, as arrays that no other ranker has: a copy's are made when they are first read."""
        if self._sharing is not None:
            self._separate(self._sharing)
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        sharing, self._state, self._sharing = self._sharing, state, None
        if sharing is not None:
            sharing.discard(self)

    def _separate(self, sharing: weakref.WeakSet[Ranker]) -> None:
        """Stop sharing the state. The last one to do so keeps the arrays; the others leave when they have copied them."""
        self.state = self._copied(None) if len(sharing) > 1 else self._state

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_state": self.state, "_sharing": None, "_calls": None}

    @property
    def calls(self) -> Calls:
        """Its functions, to be called on its state and on its arrays of a round."""
        state, calls = self.state, self._calls
        if calls is None or calls.state is not state or calls.rng is not self.rng:
            calls = self._calls = Calls(type(self), state, self.rng, self._round, self.rules)
        return calls

    @functools.cached_property
    def identity(self) -> str:
        """The identity that its slates carry."""
        return self._identify()

    def rank(self) -> Slate:
        """The next slate to show."""
        items, marks, probabilities = self._draw()
        ids = self.catalogue.ids
        named = None if ids is None else tuple(ids[item] for item in items)
        return Slate(items, marks, self.served - 1, self.identity, named, *probabilities)

    def _draw(self) -> tuple[Ints, Ints, Any]:
        """Draw and serve the next slate: items, marks and, where it can tell, the probabilities."""
        self._settle()
        calls, drawn = self.calls, self._round
        with plainly():
            calls.loop(draw)(calls.drawing)
        items, tells = self.validated(drawn.slate.items).copy(), self.compiled_propensity is not None
        probabilities = (drawn.marginal.copy(), float(drawn.joint[0]), drawn.given.copy()) if tells else ()
        self.served += 1
        return items, drawn.slate.marks.copy(), probabilities

    def validated(self, items: Ints) -> Ints:
        """The items of a new slate; ValueError where a user's own algorithm repeats one or shows one that does not exist."""
        if is_ours(type(self).__module__):
            return items
        try:
            return as_items(items, len(self.catalogue))
        except ValueError as error:
            raise ValueError(f"{self.name}: rank() drew what cannot be shown: {error}") from None

    def learn(self, slate: Slate, clicks: ArrayLike, seen: ArrayLike | None = None) -> None:
        """Take in the clicks on a slate of this ranker: K booleans, True where there was a click.

        Slates may be answered in any order, late or never, but each at most once. ``seen`` are K booleans as well, True for
        positions that were on the screen; by default all were. What is below the first position that was neither seen nor
        clicked teaches nothing. Raises ValueError, and changes nothing, for a slate of another ranker and for anything but K
        booleans.
        """
        clicked = self._answer_of(slate, clicks, seen)
        if not len(clicked):
            return self.drop(slate)
        self._settle()
        self._round.clicks[: len(clicked)], self._round.clicks[len(clicked) :] = clicked, False
        self._round.answered[0] = len(clicked)
        self.due = self._once("learn", slate) == 1
        return self._settle()

    def _once(self, function: str, slate: Slate) -> int:
        """Call one of the functions that update the state after a slate."""
        self._round.slate.items[:], self._round.slate.marks[:] = slate.items, slate.marks
        calls = self.calls
        with plainly():
            return int(calls.loop(once)(getattr(calls, function)))

    def advance(self, loop: Callable[[Calls], tuple[int, bool]]) -> None:
        """Let a loop play rounds with these functions, much faster than the methods could.

        It returns how many slates it has served, and whether it stopped because a decision is due, which is then made.
        """
        self._settle()
        served, self.due = loop(self.calls)
        self.served += served
        self._settle()

    def _settle(self) -> None:
        """Make the decision that is due, if any; should it be interrupted, it stays due."""
        if self.due:
            self.plan()
            self.due = False

    def estimate_propensity(self, slate: Slate, draws: int = 1000, seed: Seed = 0, **request: Any) -> tuple[Floats, Floats]:
        """How probable each item was at its position, and the standard error, from slates that a copy draws.

        For algorithms that cannot tell (``slate.propensity`` is None or has NaN). Call it before anything else is learned: the
        copy draws as this ranker would now. ``request`` is what a ranker of requests was given for this slate.
        """
        self._belongs(slate, self.served)
        rng, hits = np.random.default_rng(sequence(seed, "propensity")), np.zeros(len(slate))
        copy = self.copy()
        for _ in range(as_count("draws", draws)):
            copy = self.copy(int(rng.integers(2**63)), into=copy)
            hits += copy.drawn_like(slate, **request).items == slate.items
        share = hits / draws
        return share, np.sqrt(np.maximum(share * (1 - share), 1 / draws) / draws)

    def drawn_like(self, slate: Slate, **request: Any) -> Slate:
        """Another slate, drawn as this one was."""
        return self.rank(**request)

    def drop(self, slate: Slate) -> None:
        """Say that a slate will never be answered, so that what it explored is tried again at once."""
        self._belongs(slate, self.served)
        self._once("drop", slate)

    def adopt(self, slate: Slate) -> None:
        """Register a slate that a copy of this ranker has ranked, so that its answer can be learned here.

        Copies (:meth:`copy`, or ``load(ranker.save(), features)`` in another process) may rank while this one learns.
        """
        self._belongs(slate, served=slate.number + 1 if isinstance(slate, Slate) else 0)
        self._settle()
        self._once("served", slate)
        self.served += 1

    def follow(self, rules: int) -> None:
        """Decide as an older version did, so that its logs fold to the same states. ``RULES`` is the present version."""
        self.rules, self._calls = rules, None

    def plan(self) -> None:
        """Make the decisions that are due. Called when ``learn`` says so, by this class alone; most algorithms have none."""

    def prepare(self) -> None:
        """Compile what decisions need and rounds do not; for most algorithms there is nothing."""

    def knowledge(self) -> Knowledge:
        """What it knows, for people and pages; nothing by default."""
        return Knowledge()

    def record_prior(self, prior: Any) -> Prior | None:
        """Check and remember the prior that it is made with, if any."""
        checked = as_prior(prior, self.catalogue)
        if checked is not None:
            self.record(prior=checked.to_json())
        return checked

    def copy(self, seed: Seed = None, *, into: Self | None = None) -> Self:
        """Another ranker that has learned the same, and takes this one's slates as well as its own.

        It shares the catalogue and everything that never changes. The state is shared as well until one of the two changes or
        reads it, and then copied, unless the other is gone. In the memory of an earlier copy it is copied at once, and so is
        the small state of a ranker of requests. Arrays that were taken from ``state`` before may belong to either: read
        ``state`` again after a copy.

        Args:
            seed: the seed of its random choices from here on; by default it makes those that this ranker would make.
            into: an earlier copy that is not used any more, whose memory is taken over.

        """
        other = object.__new__(type(self))
        vars(other).update(vars(self), _sharing=None, _options=dict(self._options))
        if into is not None:
            other._state = self._copied(into._reusable())
            other._round, other._calls, other.rng = into._round, into._calls, into.rng
        else:
            if self._sharing is None:
                self._sharing = weakref.WeakSet([self])
            self._sharing.add(other)
            other._sharing = self._sharing
            other._round, other._calls = Round.empty(self.positions), None
            other.rng = np.random.Generator(np.random.PCG64(0))
        chance = self.rng.bit_generator if seed is None else np.random.PCG64(sequence(seed, "ranker"))
        other.rng.bit_generator.state = chance.state
        return other

    def save(self) -> bytes:
        """All that was learned, as bytes for :func:`recurrank.load`. The catalogue is not in it, only its fingerprint."""
        from recurrank.rankers.saving import save

        return save(self)

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What :meth:`unpack` needs: JSON values, and arrays."""
        return {}, dict(flatten(self.state, self.from_catalogue))

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        """Restore what :meth:`pack` returned."""
        self.state = unflatten(self.state, self.from_catalogue, arrays)

    def _copied(self, into: Any) -> Any:
        """``_state`` with arrays of its own, in the memory of the state ``into`` where that has room."""
        return copied(self._state, self.from_catalogue, into, self.tracked)

    def _reusable(self) -> Any:
        """The state, to be overwritten; None if others share it."""
        return self._state if self._sharing is None or len(self._sharing) == 1 else None

    def _answer_of(self, slate: Slate, clicks: ArrayLike, seen: ArrayLike | None) -> Bools:
        """The clicks above the first position that was neither seen nor clicked; ValueError for invalid arguments."""
        self._belongs(slate, self.served)
        clicked = as_booleans("clicks", clicks, len(slate))
        if seen is None:
            return clicked
        reached = clicked | as_booleans("seen", seen, len(slate))
        return clicked if reached.all() else clicked[: int(np.argmin(reached))]

    def _belongs(self, slate: Slate, served: int) -> None:
        """ValueError unless it is one of the first ``served`` slates of this ranker or a copy of it."""
        if not isinstance(slate, Slate):
            raise ValueError(f"slate: {type(slate).__name__} is not a slate; give back what rank() returned")
        shapes = slate.items.shape, slate.marks.shape
        if slate.ranker != self.identity or slate.number >= served or shapes != ((self.positions,), (self.positions, 2)):
            raise ValueError("slate: it was served by another ranker; give it to the one whose rank() returned it")

    def _identify(self) -> str:
        """An identity shared only by rankers made in the same way: from the same options, seed and catalogue."""
        features, seed = self.catalogue.features, self._sequence
        sample = np.ascontiguousarray(features[:: max(1, len(features) // 1000)])
        made_of = (self.name, features.shape, self.positions, self.rounds, self._options, seed.entropy, seed.spawn_key)
        return hashlib.sha256(repr(made_of).encode() + sample.tobytes()).hexdigest()[:16]

    @classmethod
    def restore(cls, features: ArrayLike | Catalogue, **arguments: Any) -> Self:
        """A ranker to be filled by :meth:`unpack`; one that costs much to start overrides this."""
        return cls(features, **arguments)


@hot
def nothing_served(state: Any, slate: Buffer) -> None:
    """For algorithms whose state does not depend on the slates served."""


_rankers: dict[str, type[Ranker]] = {}


def register(state: type[Any], ranker: type[Ranker]) -> None:
    """Make an algorithm known by its name, and its compiled functions by the type of its state."""
    register_state(state, ranker)
    _rankers[ranker.name] = ranker


def register_state(state: type[Any], ranker: type[Ranker]) -> None:
    """Make compiled functions known by the type of their state, without a name for the algorithm."""
    algorithms[state] = ranker
    contributes(state, ranker)


def registered() -> dict[str, type[Ranker]]:
    """Every algorithm by its name."""
    return dict(_rankers)

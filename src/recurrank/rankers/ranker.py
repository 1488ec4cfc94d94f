"""What every ranker has: a state, compiled functions over it, and the rare decisions in between.

A ranking algorithm is one file with

    a State               a NamedTuple of arrays, all that changes from round to round;
    rank(state, rng, slate)              compiled: fills slate.items (and slate.marks) for one round;
    learn(state, slate, clicks) -> bool  compiled: takes the clicks in; True when a decision is due;
    a Ranker subclass     with ``plan``, ordinary Python, which makes that decision.

The simulator runs the compiled pair a million rounds at a time; :meth:`Ranker.rank` and :meth:`Ranker.learn` call the
very same functions one round at a time.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numba.extending import overload
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_count, as_number, as_probabilities, as_seed
from recurrank._compiled import HOT
from recurrank.catalogue import Catalogue, as_catalogue
from recurrank.slate import Slate

OF_THE_CATALOGUE = ("features", "columns")
"""Fields of a state that hold the catalogue's features (or these transposed): compiled functions need them, saving does not."""

Seed = int | np.random.SeedSequence | None


class Buffer(NamedTuple):
    """A slate as compiled functions see it."""

    items: Ints  # (K,)
    marks: Ints  # (K, 2)

    @staticmethod
    def empty(positions: int) -> Buffer:
        return Buffer(np.zeros(positions, np.int64), np.full((positions, 2), -1, np.int64))


class Feedback(NamedTuple):
    """What became of the explored places of all slates answered so far.

    ``learned`` counted; ``surplus`` came after enough had; ``late`` came after their block had closed.
    """

    learned: int
    surplus: int
    late: int


class Ranker:
    """An algorithm at work on one catalogue. Subclasses are the algorithms; this holds what they share.

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
    compiled_count: ClassVar[Callable[..., Any] | None] = None
    """count(state, rng, slate): what serving this slate does to the state. By default a round passes, whichever it was."""
    compiled_drop: ClassVar[Callable[..., Any] | None] = None
    """drop(state, slate): what it does that a slate's answer will not come. By default nothing."""

    state: Any

    def __init__(self, features: ArrayLike | Catalogue, positions: int, rounds: int, seed: Seed) -> None:
        self.catalogue = as_catalogue(features)
        self.positions = as_count("positions", positions)
        self.rounds = as_count("rounds", rounds)
        if len(self.catalogue) < self.positions:
            raise ValueError(
                f"positions: {self.positions} is more than the {len(self.catalogue)} items; show at most as many as there are"
            )
        sequence = as_seed(seed)
        self.rng = np.random.Generator(np.random.PCG64(sequence))
        self.served = 0
        self.due = False  # whether a decision is to be made before the next round: it stays due if it was interrupted
        self._options: dict[str, Any] = {}
        self._sequence = sequence
        self._buffer = Buffer.empty(self.positions)

    @functools.cached_property
    def identity(self) -> str:
        """Whose slates it takes."""
        return self._identify()

    def rank(self) -> Slate:
        """The next slate to show."""
        if self.due:
            self.plan()
        type(self).compiled_rank(self.state, self.rng, self._buffer)
        slate = Slate(self._buffer.items.copy(), self._buffer.marks.copy(), self.served, self.identity)
        self.served += 1
        return slate

    def learn(self, slate: Slate, clicks: ArrayLike) -> None:
        """Take in the clicks on a slate of this ranker: K booleans, True where there was a click.

        Slates may be answered in any order, late or never, but each at most once. Raises ValueError, and changes
        nothing, for a slate of another ranker and for anything but K booleans.
        """
        clicked = self._checked(slate, clicks)
        if self.due:
            self.plan()
        self.due = bool(type(self).compiled_learn(self.state, Buffer(slate.items, slate.marks), clicked))
        if self.due:
            self.plan()

    def drop(self, slate: Slate) -> None:
        """Say that a slate's answer will never come, so that what it explored is asked for again at once."""
        self._belongs(slate, self.served)
        compiled_drop = type(self).compiled_drop
        if compiled_drop is not None:
            compiled_drop(self.state, Buffer(slate.items, slate.marks))

    def adopt(self, slate: Slate) -> None:
        """Count a slate as served that a copy of this ranker has ranked, so that its answer can be learned here.

        Copies (``load(ranker.save(), features)``) may rank in other processes while this one learns.
        """
        self._belongs(slate, served=slate.number + 1 if isinstance(slate, Slate) else 0)
        if self.due:
            self.plan()
        compiled_count = type(self).compiled_count
        if compiled_count is None:
            type(self).compiled_rank(self.state, self.rng, self._buffer)
        else:
            compiled_count(self.state, self.rng, Buffer(slate.items, slate.marks))
        self.served += 1

    def plan(self) -> None:
        """Make the decisions that are due. Called after ``learn`` says so; most algorithms have none."""
        self.due = False

    def prepare(self) -> None:
        """Compile what decisions need and rounds do not; for most algorithms there is nothing."""

    def options(self) -> dict[str, Any]:
        """What it was made with besides catalogue, positions, rounds and seed, as numbers, strings and lists."""
        return dict(self._options)

    def record(self, **options: Any) -> None:
        """Remember what it was made with."""
        self._options |= options

    def save(self) -> bytes:
        """All that was learned, as bytes for :func:`recurrank.load`. The catalogue is not in it, only its fingerprint."""
        from recurrank.rankers.saving import save

        return save(self)

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What :meth:`unpack` needs: JSON values, and arrays."""
        return {}, dict(flatten(self.state))

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        """Become what was packed."""
        self.state = unflatten(self.state, arrays)

    def _checked(self, slate: Slate, clicks: ArrayLike) -> Bools:
        self._belongs(slate, self.served)
        try:
            clicked = np.asarray(clicks)
        except ValueError as error:
            raise ValueError(f"clicks: rows of different lengths; give {self.positions} booleans") from error
        if clicked.shape != (self.positions,):
            raise ValueError(f"clicks: shape is {clicked.shape}; it should be ({self.positions},), a boolean a position")
        if clicked.dtype != np.bool_:
            if clicked.dtype.kind not in "iuf" or not ((clicked == 0) | (clicked == 1)).all():
                raise ValueError("clicks: not all are true or false; give a boolean a position")
            clicked = clicked.astype(np.bool_)
        return np.ascontiguousarray(clicked)

    def _belongs(self, slate: Slate, served: int) -> None:
        """ValueError unless it is one of the first ``served`` slates of this ranker or a copy of it."""
        if not isinstance(slate, Slate):
            raise ValueError(f"slate: {type(slate).__name__} is not a slate; give back what rank() returned")
        shapes = slate.items.shape, slate.marks.shape
        if slate.ranker != self.identity or slate.number >= served or shapes != ((self.positions,), (self.positions, 2)):
            raise ValueError("slate: it was served by another ranker; give it to the one whose rank() returned it")

    def _identify(self) -> str:
        """A name that only rankers share that were made in the same way: from these options, this seed and this catalogue."""
        features, seed = self.catalogue.features, self._sequence
        some = np.ascontiguousarray(features[:: max(1, len(features) // 1000)])
        made_of = (self.name, features.shape, self.positions, self.rounds, self._options, seed.entropy, seed.spawn_key)
        return hashlib.sha256(repr(made_of).encode() + some.tobytes()).hexdigest()[:16]

    @classmethod
    def restore(cls, features: ArrayLike | Catalogue, **arguments: Any) -> Self:
        """A ranker to be filled by :meth:`unpack`; one that costs much to start overrides this."""
        return cls(features, **arguments)


def flatten(state: Any, prefix: str = "state") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Every array of a state with a name, states within states included; what is the catalogue's is left out."""
    for name in type(state)._fields:
        part = getattr(state, name)
        if name in OF_THE_CATALOGUE:
            continue
        if isinstance(part, tuple):
            yield from flatten(part, f"{prefix}.{name}")
        else:
            yield f"{prefix}.{name}", part


def unflatten(like: Any, arrays: dict[str, np.ndarray[Any, Any]], prefix: str = "state") -> Any:
    """A state of the same shape as ``like``, of the arrays that :func:`flatten` named."""
    kind = type(like)
    parts = []
    for name in kind._fields:
        part, path = getattr(like, name), f"{prefix}.{name}"
        if name in OF_THE_CATALOGUE:
            parts.append(part)
        else:
            parts.append(unflatten(part, arrays, path) if isinstance(part, tuple) else arrays[path])
    return kind(*parts)


def positive(name: str, value: float, *, zero: bool = False) -> float:
    """A finite number above zero (or zero, where that is allowed)."""
    if not 0 <= as_number(name, value) < np.inf or (value == 0 and not zero):
        least = "of at least 0" if zero else "above 0"
        raise ValueError(f"{name}: {value!r} is not a number {least}")
    return float(value)


def noise(sigma: float) -> float:
    """A standard deviation that a model may assume."""
    if not 1e-3 <= positive("sigma", sigma) <= 1e3:
        raise ValueError(f"sigma: {sigma} is no noise of clicks; give a number between 0.001 and 1000")
    return float(sigma)


def examined(examination: ArrayLike | None, positions: int) -> Floats:
    """Known examination probabilities, none of them zero; by default 1, 1/2, 1/3, ..."""
    known = as_probabilities("examination", 1 / np.arange(1, positions + 1) if examination is None else examination)
    if known.shape != (positions,) or not known.all():
        raise ValueError(f"examination: give {positions} probabilities above 0, one a position")
    return known.copy()


_compiled: dict[type[Any], type[Ranker]] = {}
_rankers: dict[str, type[Ranker]] = {}


def register(state: type[Any], ranker: type[Ranker]) -> None:
    """Make an algorithm known by its name, and its compiled functions by the type of its state."""
    _compiled[state] = ranker
    _rankers[ranker.name] = ranker


def registered() -> dict[str, type[Ranker]]:
    """Every algorithm by its name."""
    return dict(_rankers)


def rank(state: Any, rng: np.random.Generator, slate: Buffer) -> None:
    """The rank of this state's algorithm; only compiled code can call it."""
    raise TypeError("only compiled code can call this; use a ranker's own method")


def learn(state: Any, slate: Buffer, clicks: Bools) -> bool:
    """The learn of this state's algorithm; only compiled code can call it."""
    raise TypeError("only compiled code can call this; use a ranker's own method")


def count(state: Any, rng: np.random.Generator, slate: Buffer) -> None:
    """What serving a slate does to this state (it may overwrite the slate); only compiled code can call it."""
    raise TypeError("only compiled code can call this; use a ranker's own method")


def drop(state: Any, slate: Buffer) -> None:
    """What losing a slate's answer does to this state; only compiled code can call it."""
    raise TypeError("only compiled code can call this; use a ranker's own method")


@overload(rank, jit_options=HOT, strict=False)
def _rank(state: Any, rng: Any, slate: Any) -> Any:
    return _compiled[state.instance_class].compiled_rank.py_func  # type: ignore[attr-defined]


@overload(learn, jit_options=HOT, strict=False)
def _learn(state: Any, slate: Any, clicks: Any) -> Any:
    return _compiled[state.instance_class].compiled_learn.py_func  # type: ignore[attr-defined]


@overload(count, jit_options=HOT, strict=False)
def _count(state: Any, rng: Any, slate: Any) -> Any:
    kind = _compiled[state.instance_class]
    return (kind.compiled_count or kind.compiled_rank).py_func  # type: ignore[attr-defined]


@overload(drop, jit_options=HOT, strict=False)
def _drop(state: Any, slate: Any) -> Any:
    kind = _compiled[state.instance_class]
    return kind.compiled_drop.py_func if kind.compiled_drop else _nothing  # type: ignore[attr-defined]


def _nothing(state: Any, slate: Any) -> None:
    pass

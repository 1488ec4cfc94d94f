"""What rankers of documents for queries share: a linear ranking function, and slates that remember how they were made.

A query brings its documents' features (``ranker.rank(features)``); documents are scored by <x, theta>. What learning needs
besides the features that were shown (scores, probabilities, teams) is the slate's *memory*, one row per position, so that
clicks may come late and in any order.

An algorithm is a file with a State, compiled ``choose`` and ``take`` and a subclass of :class:`DocumentRanker`; ``choose``
leaves the memory of its slate in ``state.memory``, where ``take`` finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, Ints
from recurrank._compiled import contributes
from recurrank.catalogue import Catalogue
from recurrank.rankers.engines.request_calls import register_requests
from recurrank.rankers.engines.requests import Work
from recurrank.rankers.ranker import Seed
from recurrank.rankers.request import Answered, Choice, Name, RequestSlate
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.rankers.states import flatten, unflatten
from recurrank.slate import Slate

_kinds: dict[str, type[DocumentRanker]] = {}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DocumentSlate(RequestSlate):
    """The slate of a query.

    Attributes:
        memory: what learning needs besides the features, in the algorithm's own terms; one row per position.

    """

    memory: Floats

    def pack(self) -> dict[str, Any]:
        """All of it as numbers, strings and bytes."""
        return {**super().pack(), "memory": np.ascontiguousarray(self.memory, "<f8").tobytes()}

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Self:
        """The slate from what :meth:`pack` returned."""
        plain = RequestSlate.unpack(packed)
        memory = np.frombuffer(packed["memory"], "<f8").astype(np.float64).reshape(len(plain.items), -1)
        return cls(**{field.name: getattr(plain, field.name) for field in fields(plain)}, memory=memory)


class DocumentRanker(RequestRanker):
    """A ranking function that is learned from clicks on the documents of queries. Subclasses are the algorithms.

    The state of an algorithm has at least ``features``, ``short``, ``account``, ``theta`` (from its second number on),
    ``memory`` and ``work``.
    """

    not_served: ClassVar[str] = "its slates do not fit into the log of a service yet"
    believes = "none: learns a ranking function"

    def begin_queries(
        self, features: ArrayLike | Catalogue | None, dim: int | None, positions: int, rounds: int, seed: Seed, context: int,
        interactions: str,
    ) -> dict[str, Any]:  # fmt: skip
        """Begin with what all of them are made with; return the fields that all states have."""
        self.begin(features, dim, positions, rounds, seed, context, interactions)
        none = np.zeros(0, np.int64)
        shared: dict[str, Any] = {"features": self._whole(), "short": none, "account": np.zeros(1), "work": self._work(64)}
        return {**shared, "theta": np.zeros(self.width + 1)}

    def _room(self, candidates: int) -> dict[str, Any]:
        """Scratch fields of a state, besides its work, that grow with the documents of a query."""
        return {}

    def make_room(self, candidates: int) -> None:
        before = len(self.state.work.score)
        super().make_room(candidates)
        if len(self.state.work.score) != before:
            self.state = self.state._replace(**self._room(len(self.state.work.score)))

    def copy(self, seed: Seed = None, *, into: Self | None = None) -> Self:
        other = super().copy(seed, into=into)
        other.state = other.state._replace(**self._room(len(self.state.work.score)))
        return other

    @property
    def weights(self) -> Floats:
        """Theta, one number per feature: documents are ranked by <x, theta>."""
        vector: Floats = self.state.theta[1:].copy()
        return vector

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
        """The slate for a query: of documents whose features it brings, of those that it names, or of the whole catalogue.

        Args:
            features: one row per document; ``slate.items`` are rows of it.
            candidates: ids of the catalogue; or, with ``features``, what to call its rows.
            context: of the query or the visitor, where the ranker was made with one.
            segment: has no effect.
            exclude: documents that must not be shown.
            pin: the document that must be shown at each of these positions, counted from 0.
            positions: how many positions to fill, at most the ranker's.
            explore: how often to explore, from 0 to 1; other slates are in the best-known order and not learned from.
            propensity: has no effect: these algorithms do not compute it.

        """
        if features is None and candidates is None and len(self.catalogue):
            candidates = [self.catalogue.names[index] for index in self.catalogue.alive.tolist()]
        settings: dict[str, Any] = {"exclude": exclude, "pin": pin, "positions": positions, "explore": explore}
        settings["propensity"] = propensity
        return super().rank(features, candidates=candidates, context=context, segment=segment, **settings)

    def _choose(self, features: Floats, rows: Ints, slots: Ints, share: float, tell: bool) -> Choice:
        self.state.memory[:] = np.nan
        return super()._choose(features, rows, slots, share, tell)

    def _slate(self, answered: Answered) -> DocumentSlate:
        slate = super()._slate(answered)
        values = {field.name: getattr(slate, field.name) for field in fields(slate)}
        return DocumentSlate(**values, memory=self.state.memory[: len(slate)].copy())

    def learn(self, slate: Slate, clicks: ArrayLike, seen: ArrayLike | None = None) -> None:
        """Take in the clicks on a slate of this ranker: one boolean per position shown; late, in any order, each slate once."""
        self._answer_of(slate, clicks, None)
        if isinstance(slate, DocumentSlate):
            self.state.memory[:] = np.nan
            self.state.memory[: len(slate)] = slate.memory
        super().learn(slate, clicks, seen)

    def _shortlist(self) -> None:
        """Do nothing: queries name their documents."""

    def _work(self, candidates: int) -> Work:
        return Work.of(candidates, self.positions, self.width, self.width + 1)

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return {"due": self.due}, dict(flatten(self.state, self.from_catalogue))

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.state = unflatten(self.state, self.from_catalogue, arrays)
        self.due = values["due"]


def register(state: type[Any], ranker: type[DocumentRanker]) -> None:
    """Make an algorithm known by its name, and its compiled functions by the type of its state."""
    register_requests(state, ranker)
    contributes(state, ranker)
    _kinds[ranker.name] = ranker


def registered() -> dict[str, type[DocumentRanker]]:
    """Every ranker of documents by its name."""
    return dict(_kinds)

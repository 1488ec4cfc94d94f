"""Catalogues: the items that are ranked, a feature vector each, and their ids when they have any."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Features, as_features
from recurrank.design.basis import scales_of
from recurrank.design.scan import Rows

_PIECE = 1 << 24


class Catalogue:
    """Items with feature vectors. Everywhere else an item is its place here, counted from 0.

    Args:
        features: a matrix, a row an item; float32 and float64 (a memory map too) are used where they are.
        ids: the items' own names, all different; by default they have none.

    Raises ValueError for features that are ragged, empty, not finite or all zero, and for repeated ids.

    >>> catalogue = Catalogue([[1.0, 0.0], [0.0, 1.0]], ids=["a", "b"])
    >>> len(catalogue), catalogue.ids
    (2, ('a', 'b'))

    """

    def __init__(self, features: ArrayLike, ids: Sequence[str] | None = None) -> None:
        self.features: Features = as_features(features)
        self.ids = None if ids is None else _as_ids(ids)
        self.scales = scales_of(Rows(self.features))
        if self.ids is not None:
            _check_ids(self.ids, len(self))

    def __len__(self) -> int:
        return len(self.features)

    @property
    def dim(self) -> int:
        return int(self.features.shape[1])

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of every feature and id: what a saved ranker keeps instead of the catalogue."""
        flat = np.ascontiguousarray(self.features).reshape(-1).view(np.uint8)
        pieces = [flat[start : start + _PIECE] for start in range(0, len(flat), _PIECE)]
        with ThreadPoolExecutor() as pool:  # hashing releases the lock
            digests = list(pool.map(lambda piece: hashlib.sha256(piece).digest(), pieces))
        head = repr((self.features.shape, self.features.dtype.str, self.ids)).encode()
        return hashlib.sha256(head + b"".join(digests)).hexdigest()


def as_catalogue(features: ArrayLike | Catalogue) -> Catalogue:
    """The catalogue itself, or one made of a feature matrix."""
    return features if isinstance(features, Catalogue) else Catalogue(features)


def _as_ids(ids: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(str(name) for name in ids)
    except TypeError as error:
        raise ValueError(f"ids: {ids!r} is not a list; give a name an item") from error


def _check_ids(ids: tuple[str, ...], items: int) -> None:
    if len(ids) != items:
        raise ValueError(f"ids: {len(ids)} ids for {items} items; give one an item")
    seen: dict[str, int] = {}
    for place, name in enumerate(ids):
        if name in seen:
            raise ValueError(f"ids[{place}]: {name!r} is the id of item {seen[name]} already; ids must all be different")
        seen[name] = place

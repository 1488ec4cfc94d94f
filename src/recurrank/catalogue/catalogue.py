"""Catalogues: the items that are ranked, one feature vector per item, and their ids when they have any."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Features, Floats, as_features
from recurrank.catalogue.csv import read_csv_file
from recurrank.catalogue.files import map_npy, map_raw
from recurrank.catalogue.ids import Names, digest_of
from recurrank.catalogue.maps import convert, open_map
from recurrank.catalogue.parquet import Dataset, Progress, Where
from recurrank.catalogue.rows import COPIED, Rows, is_precise, kept, lent, without_zeros

_PIECE = 1 << 24
"""Bytes of features that are hashed at a time."""


class Catalogue:
    """Items with feature vectors. Everywhere else an item is its index here, from 0.

    Args:
        features: a matrix, one row per item, float32 or float64. Read-only memory maps and read-only arrays are not copied, but
            a read-only view of writeable memory is. Other arrays are copied up to 256 MB; larger ones must not be written to,
            which :meth:`check` checks. Or a path that :meth:`open` opens.
        ids: the items' own names, all different; by default they have none. Whole numbers become text.

    Raises ValueError for features that are ragged, empty, not finite or all zero, and for ids that are repeated, missing or
    neither text nor whole numbers.

    >>> catalogue = Catalogue([[1.0, 0.0], [0.0, 1.0]], ids=["a", "b"])
    >>> len(catalogue), catalogue.ids
    (2, ('a', 'b'))

    """

    features: Features
    ids: Sequence[str] | None
    scales: Floats
    _lent: str | None = None
    """The fingerprint at construction; None unless somebody may still write to the features."""

    def __init__(self, features: ArrayLike | str | Path, ids: Sequence[str | int] | None = None) -> None:
        if isinstance(features, str | Path):
            opened = type(self).open(features)
            self.features, self.scales, self.ids = opened.features, opened.scales, opened.ids
        else:
            self.features, self.ids = kept(as_features(features)), None
            self.scales = without_zeros(Rows(self.features).scales())
        if ids is not None:
            self.ids = _as_ids(ids)
            _check_ids(self.ids, len(self))
        if self.features.nbytes > COPIED and lent(self.features):
            self._lent = self.fingerprint

    @classmethod
    def open(
        cls,
        where: Where,
        *,
        features: str | Sequence[str] | None = None,
        ids: str | None = None,
        dim: int | None = None,
        to: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """A catalogue that stays in its file, however large.

        Args:
            where: a .npy file, a .csv file (which is read), a file of float32 numbers alone (then give ``dim``), a Parquet
                file, or a folder, a pattern (``items/*.parquet``) or a list of those. Parquet is converted once, into a folder
                beside it whose name ends in .map; if that is interrupted, the next call resumes it. Such a
                folder can be opened too.
            features: for Parquet and CSV, the column of lists or the columns of numbers; by default the only column of
                lists, or else all columns of numbers.
            ids: for Parquet and CSV, the column with the items' names; by default ``id`` if there is one.
            dim: for a file of float32 numbers alone, the numbers per row.
            to: the folder for the map, if it should not be beside the Parquet files.
            progress: called during conversion, with the rows that are done and the rows in all.

        Raises ValueError, in one line, for anything that cannot be opened, and then leaves no partial files.

        """
        path = Path(where) if isinstance(where, str | Path) else None
        if path is not None and path.is_file() and path.suffix == ".csv" and to is None:
            read = read_csv_file(path, features, ids)
            return cls(read.features, read.ids)
        if path is not None and path.is_file() and path.suffix != ".parquet":
            if features is not None or ids is not None or to is not None:
                raise ValueError(
                    f"{path}: only CSV and Parquet have columns, and only Parquet is converted to a map; "
                    "leave features, ids and to out"
                )
            if path.suffix != ".npy" and dim is None:
                raise ValueError(f"{path}: not .npy, .csv or .parquet; for a file of float32 numbers alone, give dim")
            return cls(map_npy(path) if path.suffix == ".npy" else map_raw(path, dim))
        if path is not None and path.suffix == ".npy":
            raise ValueError(f"{path}: no such file; give a .npy, .csv or .parquet file with one row per item")
        if path is None or not (path / "about.json").is_file():
            dataset = Dataset(where, features, ids)
            path = Path(os.path.realpath(map_folder(where, dataset) if to is None else to))
            convert(dataset, path, progress)
        return cls._of_map(path)

    @classmethod
    def _of_map(cls, folder: Path) -> Self:
        mapped = open_map(folder)
        catalogue = cls.__new__(cls)
        catalogue.features, catalogue.ids = mapped.features, mapped.ids
        catalogue.scales = without_zeros(mapped.scales)
        return catalogue

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        named = "no ids" if self.ids is None else "with ids"
        return f"<{type(self).__name__}: {len(self):,} items, {self.dim} features ({self.features.dtype}), {named}>"

    @property
    def dim(self) -> int:
        return int(self.features.shape[1])

    @property
    def gaps(self) -> bool:
        """Whether some indices have no item, because it was removed."""
        return len(self) < len(self.features)

    @property
    def precise(self) -> bool:
        """Whether features have the precision of float64, as they were given."""
        return is_precise(self.features)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of every feature and id. A saved ranker contains it instead of the catalogue."""
        return fingerprint_of(self.features, self.ids)

    def check(self) -> None:
        """ValueError if the caller has written to a large array of features since construction."""
        if self._lent is not None and self._lent != fingerprint_of(self.features, self.ids):
            raise ValueError("features: they were changed after the ranker was made; make a new one on a read-only array")


def fingerprint_of(features: Features, ids: Sequence[str] | None) -> str:
    """A digest of every feature, their type, and every id."""
    rows = max(1, _PIECE // (features.shape[1] * features.itemsize))
    parts = [slice(start, start + rows) for start in range(0, len(features), rows)]
    whole = Rows(features)

    def digest(part: slice) -> bytes:
        return hashlib.sha256(np.ascontiguousarray(whole.stored(part)).data).digest()

    if len(parts) == 1:  # starting threads would take longer
        digests = [digest(parts[0])]
    else:
        with ThreadPoolExecutor() as pool:  # hashing releases the lock
            digests = list(pool.map(digest, parts))
    names = None if ids is None else digest_of(ids)
    head = repr((features.shape, features.dtype.str, names)).encode()
    return hashlib.sha256(head + b"".join(digests)).hexdigest()


def map_folder(where: Where, dataset: Dataset) -> Path:
    """Where the map of a dataset is kept: beside it, under its name."""
    if dataset.system.type_name != "local":
        raise ValueError(
            f"{where}: its map cannot be kept beside it, since it is not on this machine; name a folder for the map"
        )
    given = [where] if isinstance(where, str | Path) else list(where)
    paths = [os.path.abspath(str(path).removeprefix("file://")) for path in given]
    if len(paths) == 1 and os.path.exists(paths[0]):
        return Path(paths[0] + ".map")
    names = hashlib.sha256("\n".join(paths).encode()).hexdigest()[:12]
    return Path(os.path.abspath(dataset.files[0])).with_name(f"{names}.map")


def as_catalogue(features: ArrayLike | Catalogue | str | Path) -> Catalogue:
    """The catalogue itself, or one made of a feature matrix or a file."""
    return features if isinstance(features, Catalogue) else Catalogue(features)


def _as_ids(ids: Sequence[str | int]) -> Sequence[str]:
    if isinstance(ids, Names):
        return ids
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise ValueError(f"ids: {ids!r} is not a list; give one name per item")
    if isinstance(ids, set | frozenset):
        raise ValueError("ids: a set has no order; give a list, one id per item")
    return tuple(_as_id(index, name) for index, name in enumerate(ids))


def _as_id(index: int, name: object) -> str:
    if not isinstance(name, str | int | np.integer) or isinstance(name, bool):
        raise ValueError(f"ids[{index}]: {name!r} is neither a text nor a whole number; give every item a name")
    return str(name)


def _check_ids(ids: Sequence[str], items: int) -> None:
    if len(ids) != items:
        raise ValueError(f"ids: {len(ids)} ids for {items} items; give one per item")
    seen: dict[str, int] = {}
    for index, name in enumerate(ids):
        if name in seen:
            raise ValueError(f"ids[{index}]: {name!r} is the id of item {seen[name]} already; ids must all be different")
        seen[name] = index

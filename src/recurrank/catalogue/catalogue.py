"""Catalogues: the items that are ranked, one feature vector per item, and their ids when they have any."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence
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
from recurrank.catalogue.rows import Rows, without_zeros

_PIECE = 1 << 24
"""Bytes of features that are hashed at a time."""


class Catalogue:
    """Items with feature vectors. Everywhere else an item is its index here, from 0.

    Args:
        features: a matrix, one row per item; float32 and float64 (a memory map too) are used where they are. Or a path:
            what :meth:`open` opens.
        ids: the items' own names, all different; by default they have none.

    Raises ValueError for features that are ragged, empty, not finite or all zero, and for repeated ids.

    >>> catalogue = Catalogue([[1.0, 0.0], [0.0, 1.0]], ids=["a", "b"])
    >>> len(catalogue), catalogue.ids
    (2, ('a', 'b'))

    """

    features: Features
    ids: Sequence[str] | None
    scales: Floats

    def __init__(self, features: ArrayLike | str | Path, ids: Sequence[str] | None = None) -> None:
        if isinstance(features, str | Path):
            opened = type(self).open(features)
            self.features, self.scales, known = opened.features, opened.scales, opened.ids
        else:
            self.features, known = as_features(features), None
            self.scales = without_zeros(Rows(self.features).scales())
        if ids is not None:
            known = _as_ids(ids)
            _check_ids(known, len(self))
        self.ids = known

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
            dim: for a file of float32 numbers alone, how many per row.
            to: the folder for the map, if it should not be beside the Parquet files.
            progress: called during conversion, with how many rows are done and of how many.

        Raises ValueError, in one line, for what cannot be opened; then nothing is left half made.

        """
        one = Path(where) if isinstance(where, str | Path) else None
        if one is not None and one.is_file() and one.suffix == ".csv" and to is None:
            read = read_csv_file(one, features, ids)
            return cls(read.features, read.ids)
        if one is not None and one.is_file() and one.suffix != ".parquet":
            if features is not None or ids is not None or to is not None:
                raise ValueError(
                    f"{one}: only CSV and Parquet have columns, and only Parquet is converted to a map; "
                    "leave features, ids and to out"
                )
            if one.suffix != ".npy" and dim is None:
                raise ValueError(f"{one}: not .npy, .csv or .parquet; for a file of float32 numbers alone, give dim")
            return cls(map_npy(one) if one.suffix == ".npy" else map_raw(one, dim))
        if one is not None and one.suffix == ".npy":
            raise ValueError(f"{one}: no such file; give a .npy, .csv or .parquet file with one row per item")
        if one is None or not (one / "about.json").is_file():
            dataset = Dataset(where, features, ids)
            one = Path(os.path.realpath(map_folder(where, dataset) if to is None else to))
            convert(dataset, one, progress)
        return cls._of_map(one)

    @classmethod
    def _of_map(cls, folder: Path) -> Self:
        found = open_map(folder)
        catalogue = cls.__new__(cls)
        catalogue.features, catalogue.ids = found.features, found.ids
        catalogue.scales = without_zeros(found.scales)
        return catalogue

    def __len__(self) -> int:
        return len(self.features)

    @property
    def dim(self) -> int:
        return int(self.features.shape[1])

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of every feature and id: what a saved ranker keeps instead of the catalogue."""
        rows = max(1, _PIECE // (self.dim * self.features.itemsize))
        parts = [slice(start, start + rows) for start in range(0, len(self), rows)]
        whole = Rows(self.features)

        def digest(part: slice) -> bytes:
            return hashlib.sha256(np.ascontiguousarray(whole.stored(part)).data).digest()

        if len(parts) == 1:  # starting threads would take longer
            digests = [digest(parts[0])]
        else:
            with ThreadPoolExecutor() as pool:  # hashing releases the lock
                digests = list(pool.map(digest, parts))
        names = None if self.ids is None else digest_of(self.ids)
        head = repr((self.features.shape, self.features.dtype.str, names)).encode()
        return hashlib.sha256(head + b"".join(digests)).hexdigest()


def map_folder(where: Where, dataset: Dataset) -> Path:
    """Where the map of a dataset is kept: beside it, under its name."""
    if dataset.system.type_name != "local":
        raise ValueError(
            f"{where}: its map cannot be kept beside it, since it is not on this machine; name a folder for the map"
        )
    given = [where] if isinstance(where, str | Path) else list(where)
    asked = [os.path.abspath(str(one).removeprefix("file://")) for one in given]
    if len(asked) == 1 and os.path.exists(asked[0]):
        return Path(asked[0] + ".map")
    names = hashlib.sha256("\n".join(asked).encode()).hexdigest()[:12]
    return Path(os.path.abspath(dataset.files[0])).with_name(f"{names}.map")


def as_catalogue(features: ArrayLike | Catalogue | str | Path) -> Catalogue:
    """The catalogue itself, or one made of a feature matrix or a file."""
    return features if isinstance(features, Catalogue) else Catalogue(features)


def _as_ids(ids: Sequence[str]) -> Sequence[str]:
    if isinstance(ids, Names):
        return ids
    try:
        return tuple(str(name) for name in ids)
    except TypeError as error:
        raise ValueError(f"ids: {ids!r} is not a list; give one name per item") from error


def _check_ids(ids: Sequence[str], items: int) -> None:
    if len(ids) != items:
        raise ValueError(f"ids: {len(ids)} ids for {items} items; give one per item")
    seen: dict[str, int] = {}
    for index, name in enumerate(ids):
        if name in seen:
            raise ValueError(f"ids[{index}]: {name!r} is the id of item {seen[name]} already; ids must all be different")
        seen[name] = index

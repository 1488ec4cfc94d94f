"""Judged queries: the documents of each with features and labels, in memory or in a map."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recurrank._arrays import Ints
from recurrank.catalogue.maps import npy_header
from recurrank.queries.letor import Part, Progress, read_parts
from recurrank.queries.parsing import MOST_LABEL
from recurrank.queries.room import Room, rows_of

FORMAT = 1
HEAD = 128
"""Bytes of the header of a .npy file, for any shape."""
NO_FEATURES = "{path}: no document has a feature; give lines like '2 qid:1 1:0.5 2:3'"
OURS = ("features.npy", "labels.npy", "offsets.npy", "queries.npy", "about.json")


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries and their documents, one row per document; the documents of a query are adjacent.

    Attributes:
        features: of the documents, float32; shape (n, d).
        labels: the relevance of each, from 0; shape (n,).
        offsets: the row where the documents of each query begin, and the number of rows; shape (queries + 1,).
        queries: the numbers of the queries in the file; shape (queries,).
        source: a short description of its origin.

    >>> import numpy as np
    >>> found = Queries(np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), [0, 2, 1], [0, 2, 3])
    >>> len(found), found.dim, found.most, found.top
    (2, 2, 2, 2)

    """

    features: NDArray[np.float32]
    labels: Ints
    offsets: Ints
    queries: Ints = None  # type: ignore[assignment]
    source: str = "arrays"

    def __post_init__(self) -> None:
        features = np.asarray(self.features)
        if features.ndim != 2 or 0 in features.shape or features.dtype.kind not in "fiu":
            raise ValueError(f"features: {features.dtype} of shape {features.shape}; give one row of numbers per document")
        labels, offsets = _integers("labels", self.labels), _integers("offsets", self.offsets)
        if labels.shape != (len(features),) or labels.min() < 0 or labels.max() > MOST_LABEL:
            raise ValueError(f"labels: give {len(features)} whole numbers from 0 to {MOST_LABEL}, one per document")
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(features) or (np.diff(offsets) < 1).any():
            raise ValueError(f"offsets: give where each query begins, increasing from 0, and {len(features)} at the end")
        names = np.arange(len(offsets) - 1) if self.queries is None else _integers("queries", self.queries)
        if names.shape != (len(offsets) - 1,):
            raise ValueError(f"queries: {len(names)} names for {len(offsets) - 1} queries")
        if features.dtype != np.float32 or not features.flags.c_contiguous:
            with np.errstate(over="ignore"):  # numbers that are too large are refused
                features = np.ascontiguousarray(features, np.float32)
        if not _finite(features):
            raise ValueError("features: some are NaN, infinite or too large for single precision; give finite numbers")
        features = features.view()
        features.flags.writeable = False  # the same type for compiled code, in memory or in a map
        for name, value in (("features", features), ("labels", labels), ("offsets", offsets), ("queries", names)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def dim(self) -> int:
        """Features per document."""
        return int(self.features.shape[1])

    @property
    def most(self) -> int:
        """The most documents of a query."""
        return int(np.diff(self.offsets).max())

    @property
    def top(self) -> int:
        """The highest label."""
        return int(self.labels.max())

    def widened(self, dim: int) -> Self:
        """The same with zeros for further features, so that two files of one collection have the same features."""
        if dim == self.dim:
            return self
        if dim < self.dim:
            raise ValueError(f"dim: {dim} is less than the {self.dim} features that the documents have")
        Room.in_memory()._replace(instead="number the features without gaps").check(self.source, len(self.features), dim)
        return type(self)(_wide(self.features, dim), self.labels, self.offsets, self.queries, self.source)


def read(
    path: str | Path, map: str | Path | None = None, *, normalise: bool = True, progress: Progress | None = None
) -> Queries:
    r"""The queries of an SVMrank (LETOR) file, plain or gzip.

    Args:
        path: the file.
        map: a folder to convert it to, once; its features are then read in place and need no memory. Without it, the file is
            read into memory.
        normalise: whether every feature is scaled to 0..1 within its query, as the field does.
        progress: called with the bytes read and the bytes of the file.

    Raises ValueError, in one line, with the number of the line that is wrong.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("2 qid:1 1:3 2:1\n0 qid:1 1:1 2:1\n1 qid:7 2:5\n")
    >>> found = read(path)
    >>> found.features.tolist(), found.labels.tolist(), found.queries.tolist()
    ([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [2, 0, 1], [1, 7])

    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give a LETOR file")
    source = f"{path.name} {fingerprint(path)}"
    if map is None:
        found = read_parts(path, Room.in_memory(), normalise, progress)
        parts = [part._replace(values=part.values.astype(np.float32)) for part in found]
        return _together(parts, source)
    folder, about = Path(map), {"format": FORMAT, "source": source, "normalise": normalise}
    if not _made_of(folder, about):
        _convert(path, folder, about, progress)
    return open_map(folder)


def open_map(folder: str | Path) -> Queries:
    """The queries in a map; ValueError, in one line, for a folder that is not a map, or a damaged one."""
    folder = Path(folder)
    try:
        about = json.loads((folder / "about.json").read_bytes())
        features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
        labels, offsets, queries = (np.load(folder / f"{name}.npy") for name in ("labels", "offsets", "queries"))
        if about["format"] != FORMAT or features.dtype != np.float32:
            raise ValueError(f"format {about['format']!r}; this version knows {FORMAT}")
        return Queries(np.asarray(features), labels, offsets, queries, about["source"])
    except (KeyError, TypeError, ValueError, EOFError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{folder}: not a map of queries, or a damaged one ({reason}); delete it and convert again") from error


def fingerprint(path: Path) -> str:
    """A digest of a file's content, 12 hexadecimal digits. An unchanged file is not read again."""
    status = path.stat()
    return _fingerprint(path.absolute(), status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _fingerprint(path: Path, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _finite(features: NDArray[np.float32]) -> bool:
    """Whether all are finite, checked piece by piece: a map may be larger than memory."""
    piece = rows_of(features.shape[1])
    return all(np.isfinite(features[start : start + piece]).all() for start in range(0, len(features), piece))


def _integers(name: str, values: ArrayLike) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}; give a list of whole numbers")
    return np.ascontiguousarray(array, np.int64)


def _together(parts: list[Part], source: str) -> Queries:
    dim = max(part.values.shape[1] for part in parts)
    if not dim:
        raise ValueError(NO_FEATURES.format(path=source.rpartition(" ")[0]))
    features = np.zeros((sum(len(part.labels) for part in parts), dim), np.float32)
    row = 0
    for part in parts:
        features[row : row + len(part.labels), : part.values.shape[1]] = part.values
        row += len(part.labels)
    return Queries(features, *_columns(parts), source)


def _columns(parts: list[Part]) -> tuple[Ints, Ints, Ints]:
    """Labels, offsets and names of all queries."""
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return np.concatenate([part.labels for part in parts]), offsets, np.concatenate([part.queries for part in parts])


def _made_of(folder: Path, about: dict[str, Any]) -> bool:
    try:
        found = json.loads((folder / "about.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and all(found.get(name) == value for name, value in about.items())


def _convert(path: Path, folder: Path, about: dict[str, Any], progress: Progress | None) -> None:
    """Make the map in a temporary folder beside it, and rename that when it is complete; a failure leaves nothing behind."""
    if folder.exists() and (not folder.is_dir() or any(file.name not in OURS for file in folder.iterdir())):
        raise ValueError(f"{folder}: holds other things than a map of queries; give another folder for the map")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    except OSError as error:
        raise ValueError(f"{folder}: cannot be made ({error.strerror}); say where the map should be") from error
    try:
        _write(path, part, about, progress)
        if folder.exists():
            shutil.rmtree(folder)
        part.rename(folder)
    except OSError as error:
        raise ValueError(f"{folder}: could not be written ({error.strerror or error}); nothing is left of it") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(path: Path, part: Path, about: dict[str, Any], progress: Progress | None) -> None:
    rows, dim, parts = 0, 0, []
    with open(part / "features.npy", "w+b") as file:
        file.write(bytes(HEAD))
        for read in read_parts(path, Room.on_disk(part), about["normalise"], progress):
            if read.values.shape[1] > dim:
                _widen(file, rows, dim, read.values.shape[1])
                dim = read.values.shape[1]
            piece = rows_of(dim)
            for start in range(0, len(read.labels), piece):
                _wide(read.values[start : start + piece], dim).tofile(file)
            rows += len(read.labels)
            parts.append(read._replace(values=np.zeros((0, 0))))
        if not dim:
            raise ValueError(NO_FEATURES.format(path=path))
        head = npy_header((rows, dim), "<f4")
        assert len(head) == HEAD
        file.seek(0)
        file.write(head)
        file.flush()
        os.fsync(file.fileno())
    for name, column in zip(("labels", "offsets", "queries"), _columns(parts), strict=True):
        np.save(part / f"{name}.npy", column)
    (part / "about.json").write_text(json.dumps({**about, "rows": rows, "dim": dim}, indent=1), encoding="utf-8")


def _widen(file: Any, rows: int, dim: int, wide: int) -> None:
    """Make room for more features in the rows that are written, from the last row to the first."""
    piece = rows_of(wide)
    for start in range((rows - 1) // piece * piece, -1, -piece) if rows and dim else ():
        count = min(piece, rows - start)
        file.seek(HEAD + start * dim * 4)
        values = np.fromfile(file, np.float32, count * dim).reshape(count, dim)
        file.seek(HEAD + start * wide * 4)
        _wide(values, wide).tofile(file)
    file.seek(HEAD + rows * wide * 4)


def _wide(values: NDArray[Any], dim: int) -> NDArray[np.float32]:
    """The values in single precision, with zeros for further features."""
    wide = np.zeros((len(values), dim), np.float32)
    wide[:, : values.shape[1]] = values
    return wide

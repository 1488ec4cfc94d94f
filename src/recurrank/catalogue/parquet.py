"""Parquet as features: which columns to use, and reading them group by group without loading whole files.

A *dataset* is one file, a folder of them, a pattern (``items/*.parquet``) or a list of these, local or at an address that
pyarrow supports (``s3://bucket/items/*.parquet``). Its rows are those of its files, in the order of their names.
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Features, Floats
from recurrank.catalogue.columns import Column, Kind, Layout, layout

BATCH_NUMBERS = 1 << 21
"""Features decoded at once: 8 MB of float32. Each batch costs pyarrow some time per column, whatever its size."""
TRANSPOSED = 1 << 17
"""Numbers transposed from columns into rows at once, so that they stay in the processor's cache."""

Where = str | Path | Sequence[str | Path]


class Group(NamedTuple):
    """A row group: the unit of reading."""

    file: str
    number: int
    start: int  # the index of its first row in the dataset
    rows: int


class Part(NamedTuple):
    """Adjacent rows."""

    start: int
    features: Features
    ids: Any  # a pyarrow array of strings, or None
    scales: Floats  # the largest absolute value of each column; zeros where nothing was checked


class Dataset:
    """Parquet files with the same columns, one after the other.

    Args:
        where: a file, folder, pattern or address, or several.
        features: the column of lists, or the columns of numbers; by default the only list column, or all columns of numbers.
        ids: the column that names the items, by default ``id`` if there is one.

    Raises ValueError, in one line, for anything that is not such a dataset.

    """

    def __init__(self, where: Where, features: str | Sequence[str] | None = None, ids: str | None = None) -> None:
        self._pq = _pyarrow(where)
        self.system, self.files = _files(where)
        self.groups: list[Group] = []
        self._handles = threading.local()
        start, first = 0, None
        for name in self.files:
            meta = self._open(name)
            own = parquet_layout(name, meta.schema_arrow, features, ids)
            first = first or own
            if own != first:
                raise ValueError(f"{name}: {own.difference(first)}; all files need the columns of {self.files[0]}")
            for number in range(meta.num_row_groups):
                rows = meta.metadata.row_group(number).num_rows
                if rows:
                    self.groups.append(Group(name, number, start, rows))
                start += rows
        if first is None or start == 0:
            raise ValueError(f"{self.files[0]}: no rows; give at least one item")
        self.layout, self.rows = first, start
        self.dim = self._dim()

    def __getstate__(self) -> dict[str, Any]:
        """Without the handles of open files, which cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_handles", "_pq")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._handles, self._pq = threading.local(), _pyarrow(self.files)

    def sources(self) -> list[tuple[str, int, int]]:
        """Path, size and time of the last change, in nanoseconds, of each file."""
        infos = self.system.get_file_info(self.files)
        return [(info.path, int(info.size), int(info.mtime_ns or 0)) for info in infos]

    def read(
        self, group: Group, *, ids: bool = True, threads: bool = False, kind: type[np.floating[Any]] = np.float32
    ) -> Iterator[Part]:
        """A group's rows in batches; ValueError names the first invalid row."""
        from recurrank.catalogue.kernels import enlarge

        names = (self.layout if ids else self.layout._replace(ids=None)).names
        size = max(64, BATCH_NUMBERS // self.dim)
        start = group.start
        file = self._open(group.file)
        with _readable(group.file):
            batches = file.iter_batches(size, [group.number], names, use_threads=threads)
        while True:
            with _readable(group.file):
                batch = next(batches, None)
            if batch is None:
                return
            if batch.schema.names != names:
                raise ValueError(f"{group.file}: pyarrow takes the names of its columns for others ({', '.join(names)})")
            rows = _Batch(self, group, start - group.start, batch, kind)
            features, scales = rows.listed() if self.layout.listed else rows.columns(), np.zeros(self.dim)
            if not enlarge(features, scales):
                rows.complain(features)
            yield Part(start, features, rows.ids() if ids else None, scales)
            start += len(batch)

    def _dim(self) -> int:
        if not self.layout.listed:
            return len(self.layout.features)
        for group in self.groups:
            file = self._open(group.file)
            with _readable(group.file):
                for batch in file.iter_batches(1, [group.number], self.layout.names):
                    rows = _Batch(self, group, 0, batch, np.float32)
                    return rows.length()
        raise ValueError(f"{self.files[0]}: no rows; give at least one item")

    def _open(self, name: str) -> Any:
        """The file, opened once per thread."""
        held = getattr(self._handles, "held", None)
        if held is None or held[0] != name:
            with _readable(name):
                opened = self._pq.ParquetFile(self.system.open_input_file(name))
            held = self._handles.held = (name, opened)
        return held[1]

    def load(self, *, ids: bool = True, check: Callable[[Any], None] | None = None) -> tuple[Floats, list[str] | None]:
        """All features, as float64, and the ids if there are any; ``check`` is called with each batch of ids."""
        features, names = np.empty((self.rows, self.dim)), []
        for group in self.groups:
            for part in self.read(group, ids=ids, kind=np.float64):
                features[part.start : part.start + len(part.features)] = part.features
                if part.ids is not None:
                    if check is not None:
                        check(part.ids)
                    names += part.ids.to_pylist()
        return features, names if ids and self.layout.ids else None

    def only(self, groups: list[Group]) -> Dataset:
        """The dataset restricted to these row groups."""
        part = Dataset.__new__(Dataset)
        part.__setstate__({**self.__getstate__(), "groups": groups, "rows": sum(group.rows for group in groups)})
        part.files = sorted({group.file for group in groups})
        return part


class _Batch:
    """Decoded rows of one file, and the errors about them."""

    def __init__(self, dataset: Dataset, group: Group, start: int, batch: Any, kind: type[np.floating[Any]]) -> None:
        self.dataset, self.group, self.start, self.batch, self.kind = dataset, group, start, batch, kind

    def length(self) -> int:
        """The length of the first list."""
        length = _stored(self.batch.column(0)).value_lengths()[0].as_py()
        if not length:
            raise self._error(0, self.dataset.layout.features[0].name, "no features; every item needs its own")
        return int(length)

    def columns(self) -> Features:
        """Columns of numbers, as rows."""
        out = np.empty((len(self.batch), self.dataset.dim), self.kind)
        from recurrank.catalogue.kernels import turn

        numbers = []
        for j, (name, *_) in enumerate(self.dataset.layout.features):
            column = _stored(self.batch.column(j))
            if column.null_count:
                raise self._error(self._first_null(column), name, "empty; every item needs all features")
            numbers.append(column.to_numpy(zero_copy_only=False))
        step = max(64, TRANSPOSED // self.dataset.dim)
        columns = np.empty((self.dataset.dim, step + 16), self.kind)  # 16: otherwise all columns share a few cache lines
        with np.errstate(over="ignore"):  # numbers that are too large become infinite here, and are reported below
            for start in range(0, len(out), step):
                for j, column in enumerate(numbers):
                    tile = column[start : start + step]
                    columns[j, : len(tile)] = tile
                turn(columns, out[start : start + step])
        return out

    def listed(self) -> Features:
        """A column of lists, as rows."""
        name, column, dim = self.dataset.layout.features[0].name, _stored(self.batch.column(0)), self.dataset.dim
        if column.null_count:
            raise self._error(self._first_null(column), name, "empty; every item needs its features")
        values = column.flatten()
        if len(values) != dim * len(column) or not _even(column, dim):
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            row = int(np.argmax(lengths != dim))
            raise self._error(row, name, f"{lengths[row]} features, the first item has {dim}; every item needs the same number")
        if values.null_count:
            raise self._error(self._first_null(values) // dim, name, "a feature is empty; every item needs all features")
        with np.errstate(over="ignore"):
            flat = values.to_numpy(zero_copy_only=False).astype(self.kind, copy=False)
        return np.ascontiguousarray(flat.reshape(len(column), dim))

    def ids(self) -> Any:
        """The items' names."""
        import pyarrow as pa

        if self.dataset.layout.ids is None:
            return None
        name = self.dataset.layout.ids.name
        column = self.batch.column(len(self.dataset.layout.features))
        if column.null_count:
            raise self._error(self._first_null(column), name, "no id; every item needs one")
        try:
            names = column.cast(pa.string())
            names.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._error(0, name, f"from there on, an id is not text in UTF-8 ({_line(error)})") from error
        return names

    def complain(self, rows: Features) -> None:
        """Name the first number that is not finite."""
        row, column = np.argwhere(~np.isfinite(rows))[0]
        names = self.dataset.layout.features
        name = names[0 if self.dataset.layout.listed else column].name
        raise self._error(int(row), name, f"{rows[row, column]} is not finite as {rows.dtype}; give numbers for every feature")

    def _error(self, row: int, name: str, what: str) -> ValueError:
        file, number = self.group.file, self.group.number
        above = sum(group.rows for group in self.dataset.groups if group.file == file and group.number < number)
        return ValueError(f"{file}: row {above + self.start + row}, column {name!r}: {what}")

    @staticmethod
    def _first_null(column: Any) -> int:
        return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


@contextmanager
def _readable(name: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except MemoryError:  # pyarrow's own is also an ArrowException
        raise
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, ValueError) and str(error).startswith(name):
            raise  # our own message: pyarrow's errors are ValueErrors too
        raise ValueError(f"{name}: not a Parquet file, or a damaged one ({_line(error)})") from error


def _even(column: Any, dim: int) -> bool:
    """Whether every list has this many entries."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(column.type):
        return int(column.type.list_size) == dim
    return bool((np.diff(column.offsets.to_numpy()) == dim).all())


def _files(where: Where) -> tuple[Any, list[str]]:
    """The file system, and the names of the files in it, in order."""
    from pyarrow import fs

    given = [where] if isinstance(where, str | Path) else list(where)
    if not given:
        raise ValueError("features: no files; give at least one")
    system: Any = None
    names: list[str] = []
    for address in map(str, given):
        try:
            own, path = fs.FileSystem.from_uri(address) if "://" in address else (fs.LocalFileSystem(), address)
        except Exception as error:
            raise ValueError(f"{address}: not an address that can be read ({_line(error)})") from error
        system = system or own
        if system.type_name != own.type_name:
            raise ValueError(f"{address}: not in the same file system as {given[0]}; give files of one")
        names += _listed(system, address, path)
    return system, names


def _listed(system: Any, given: str, path: str) -> list[str]:
    from pyarrow import fs

    try:
        info = system.get_file_info(path)
        if info.is_file:
            names = [path]
        elif info.type == fs.FileType.Directory:
            infos = system.get_file_info(fs.FileSelector(path))
            names = [info.path for info in infos if info.is_file and info.path.endswith(".parquet")]
        else:  # a pattern, in its last part
            folder, _, pattern = path.rpartition("/")
            infos = system.get_file_info(fs.FileSelector(folder or ".", allow_not_found=True))
            names = [info.path for info in infos if info.is_file and fnmatch.fnmatchcase(info.base_name, pattern)]
    except OSError as error:
        raise ValueError(f"{given}: cannot be listed ({_line(error)})") from error
    if not names:
        raise ValueError(f"{given}: no such file, or none in it that ends in .parquet")
    return sorted(names)


def _pyarrow(where: Where) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(f"{where}: Parquet needs pyarrow; install recurrank[parquet]") from error
    return pq


def parquet_layout(where: str, schema: Any, features: str | Sequence[str] | None = None, ids: str | None = None) -> Layout:
    """The use of each column of a pyarrow schema."""
    import pyarrow as pa

    types = [(name, _storage(kind)) for name, kind in zip(schema.names, schema.types, strict=True)]
    columns = [Column(name, _kind(kind), str(kind)) for name, kind in types]
    used = layout(where, columns, features, ids)
    if used.ids is not None:
        kind = dict(types)[used.ids.name]
        values = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (_is_text(values) or pa.types.is_integer(values)):
            raise ValueError(f"{where}: column {used.ids.name!r} holds {kind}; ids are text or whole numbers")
    return used


def _kind(kind: Any) -> Kind:
    import pyarrow as pa

    types = pa.types
    if _is_number(kind):
        return Kind.NUMBERS
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return Kind.LISTS if _is_number(kind.value_type) else Kind.UNCLEAR
    checks = (types.is_temporal, types.is_dictionary, types.is_null, types.is_binary, types.is_large_binary)
    if _is_text(kind) or str(kind) == "binary_view" or types.is_fixed_size_binary(kind) or any(check(kind) for check in checks):
        return Kind.BESIDE
    return Kind.UNCLEAR


def _storage(kind: Any) -> Any:
    """The storage type of a pyarrow extension type, such as a tensor of fixed shape."""
    import pyarrow as pa

    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _stored(column: Any) -> Any:
    import pyarrow as pa

    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view")


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


Progress = Callable[[int, int], None]
"""Called with the number of rows that are done, and of all rows."""

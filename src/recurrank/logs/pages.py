"""Pages as Arrow tables: the columns of a log in Parquet, the checks of its rows, and the conversion to :class:`Sessions`.

| column | type | |
|---|---|---|
| ``query`` | string | the query, or any other context in which items have their own attractions |
| ``items`` | list of strings | the shown items, first position first |
| ``clicks`` | list of booleans | one per item |
| ``time`` | timestamp | optional |
| ``propensity`` | list of numbers | optional: the probability of each item at its position when it was drawn |
| ``joint`` | number | optional: the probability of the whole page |
| ``conditional`` | list of numbers | optional: the probability of each item given those above it |
| ``seen`` | list of booleans | optional: which positions were on the screen |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import apart
from recurrank.logs.sessions import EMPTY, Codes, Sessions

OTHER_NAMES = {
    "query": ("query_id", "context", "key"),
    "items": ("doc_ids", "item_ids", "docs"),
    "clicks": (),
    "time": ("timestamp", "at"),
    "propensity": ("propensities",),
    "joint": (),
    "conditional": (),
    "seen": (),
}
"""Other names of these columns in logs of other programs."""


MILLISECONDS = 1e11
"""A time above this is in milliseconds; in seconds it would be the year 5138."""
LISTED = ("propensity", "conditional")
"""Columns with a probability per position."""
MARKED = ("clicks", "seen")
"""Columns with a 0 or 1 per position."""


class Bad(ValueError):
    """An error in a page, with its line or row."""


class Batch(NamedTuple):
    """Some pages of a file, and the first and last row or line of each, from 1.

    ``bad`` has the errors that the format's reader found, by index in the batch; :func:`complaints` finds the others. ``names``
    has the file's names of columns that differ from ours.
    """

    pages: Any
    first: Ints
    last: Ints
    bad: dict[int, Bad]
    names: Mapping[str, str] = {}


def arrow() -> Any:
    """pyarrow; ValueError that says how to install it if it is missing."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError("logs need pyarrow; install recurrank[parquet]") from error
    return pyarrow


def schema() -> Any:
    """The columns of a log in Parquet."""
    pa = arrow()
    return pa.schema(
        [
            ("query", pa.string()),
            ("items", pa.list_(pa.string())),
            ("clicks", pa.list_(pa.bool_())),
            ("time", pa.timestamp("us", tz="UTC")),
            ("propensity", pa.list_(pa.float64())),
            ("joint", pa.float64()),
            ("conditional", pa.list_(pa.float64())),
            ("seen", pa.list_(pa.bool_())),
        ]
    )


def columns_of(names: list[str], known: Mapping[str, Sequence[str]] | None = None) -> dict[str, str]:
    """The file's name of each of our columns, by the ``known`` names in any case; by default those of lists."""
    present = {name.strip().lower(): name for name in reversed(names)}
    wanted = {ours: (ours, *others) for ours, others in OTHER_NAMES.items()} if known is None else known
    pairs = ((ours, next((present[name] for name in theirs if name in present), None)) for ours, theirs in wanted.items())
    return {ours: name for ours, name in pairs if name is not None}


def coded(batch: Batch) -> Batch:
    """The same pages with items as numbers and a dictionary: checks and sessions need numbers, and text is large."""
    pa = arrow()
    items = batch.pages["items"]
    if items.null_count or not pa.types.is_list(items.type) or not pa.types.is_string(items.type.value_type):
        return batch
    begin = items.offsets.to_numpy()
    values = items.values.slice(begin[0], begin[-1] - begin[0]).dictionary_encode()
    lists = pa.ListArray.from_arrays(pa.array(begin - begin[0]), values)
    return batch._replace(pages=batch.pages.set_column(batch.pages.schema.get_field_index("items"), "items", lists))


def complaints(batch: Batch) -> dict[int, Bad]:
    """The bad pages of a batch by index, each with its first error."""
    bad = dict(batch.bad)
    for row, column, what in _found(arrow(), batch.pages):
        if row not in bad:
            first, last = batch.first[row], batch.last[row]
            where = f"row {first}" if first == last else f"rows {first} to {last}"
            bad[row] = Bad(f"{where}, column {batch.names.get(column, column)!r}: {what}")
    return bad


def _found(pa: Any, batch: Any) -> Iterator[tuple[int, str, str]]:
    names = batch.schema.names
    for column in ("query", "items", "clicks"):
        if column in names and batch[column].null_count:
            for row in np.flatnonzero(batch[column].is_null().to_numpy(zero_copy_only=False)):
                yield int(row), column, "missing; every page needs it"
    sizes = {name: _sizes(batch[name]) for name in ("items", *MARKED, *LISTED) if name in names}
    for row in np.flatnonzero(sizes["items"] == 0):
        yield int(row), "items", "empty; a page shows at least one item"
    for name in (*MARKED, *LISTED):
        if name in sizes:
            for row in np.flatnonzero((sizes[name] != sizes["items"]) & (sizes[name] >= 0) & (sizes["items"] >= 0)):
                yield int(row), name, f"{sizes[name][row]} values for {sizes['items'][row]} items"
    for name in MARKED:
        if name in names:
            yield from _marks(pa, batch, name)
    items, owner = _flat(batch["items"])
    if items.null_count:
        for index in np.flatnonzero(items.is_null().to_numpy(zero_copy_only=False)):
            yield int(owner[index]), "items", "an item is missing"
    codes = items.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    repeats = _repeats(codes.astype(np.int64), owner, len(batch))
    for row in np.flatnonzero(repeats >= 0):
        yield int(row), "items", f"{items[int(repeats[row])].as_py()!r} stands twice on the page"
    yield from _probabilities(batch, names)
    if "time" in names:
        for row in np.flatnonzero(as_time(batch["time"]).is_null().to_numpy(zero_copy_only=False) & _not_empty(batch["time"])):
            yield int(row), "time", f"{batch['time'][int(row)].as_py()!r} is not a time; give ISO 8601, or seconds since 1970"


def _marks(pa: Any, batch: Any, name: str) -> Iterator[tuple[int, str, str]]:
    marks, owner = _flat(batch[name])
    if marks.null_count:
        for index in np.flatnonzero(marks.is_null().to_numpy(zero_copy_only=False)):
            yield int(owner[index]), name, "a value is missing"
    if not pa.types.is_boolean(marks.type):
        numbers = as_numbers(marks)
        for index in np.flatnonzero((numbers != 0) & (numbers != 1)):
            yield int(owner[index]), name, f"{marks[int(index)].as_py()!r} is neither 0 nor 1"


def _not_empty(column: Any) -> Bools:
    """Which rows of a column have a value that is not empty."""
    pa = arrow()
    filled: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        filled = filled & (pa.compute.utf8_length(column).fill_null(0).to_numpy(zero_copy_only=False) > 0)
    return filled


def as_numbers(column: Any) -> Floats:
    """A column of any type as numbers, NaN where it has none; the words true and false are 1 and 0."""
    pa = arrow()
    try:
        numbers = column.cast(pa.uint8()).cast(pa.float64()) if pa.types.is_boolean(column.type) else column.cast(pa.float64())
    except pa.ArrowInvalid:
        numbers = pa.array([_number(value) for value in column.to_pylist()], pa.float64())
    values: Floats = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def _number(value: Any) -> float:
    word = str(value).strip().lower()
    if word in ("true", "false"):
        return float(word == "true")
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _probabilities(batch: Any, names: list[str]) -> Iterator[tuple[int, str, str]]:
    for name in LISTED:
        if name in names:
            values, owner = _flat(batch[name])
            numbers = as_numbers(values)
            for index in np.flatnonzero(~((numbers > 0) & (numbers <= 1))):
                value = values[int(index)].as_py()
                yield int(owner[index]), name, "a value is missing" if value is None else f"{value!r} lies outside (0, 1]"
    if "joint" in names:
        numbers = batch["joint"].to_numpy(zero_copy_only=False).astype(np.float64)
        given = batch["joint"].is_valid().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(given & ~((numbers > 0) & (numbers <= 1))):
            yield int(row), "joint", f"{numbers[row]:g} lies outside (0, 1]"


def _sizes(column: Any) -> Ints:
    """Lengths of lists, -1 for a missing list."""
    pa = arrow()
    sizes: Ints = pa.compute.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def _flat(column: Any) -> tuple[Any, Ints]:
    """All values of a column of lists, and the row of each."""
    pa = arrow()
    owner = pa.compute.list_parent_indices(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return pa.compute.list_flatten(column), owner


@apart
def _repeats(codes: Ints, owner: Ints, rows: int) -> Ints:
    """By row, the index of a code that the row has twice, -1 if none."""
    bad = np.full(rows, -1, np.int64)
    begin = 0
    for index in range(len(codes)):
        if owner[index] != owner[begin]:
            begin = index
        for other in range(begin, index):
            if codes[other] == codes[index] and codes[index] >= 0:
                bad[owner[index]] = index
    return bad


def canonical(batch: Any) -> Any:
    """A batch of valid pages with all columns of :func:`schema`; missing ones are empty."""
    pa = arrow()
    columns = []
    for field in schema():
        if field.name not in batch.schema.names:
            columns.append(
                pa.array([""] * len(batch), field.type) if field.name == "query" else pa.nulls(len(batch), field.type)
            )
        elif field.name == "time":
            columns.append(as_time(batch["time"]))
        else:
            columns.append(batch[field.name].cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema())


def as_time(column: Any) -> Any:
    """Times as timestamps: from timestamps, text (ISO 8601), or numbers, seconds or milliseconds since 1970.

    Invalid text becomes null.
    """
    pa = arrow()
    kind = pa.timestamp("us", tz="UTC")
    if pa.types.is_timestamp(column.type):
        return column.cast(kind)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        for stamp in (kind, pa.timestamp("us")):
            try:
                return column.cast(stamp).cast(kind)
            except pa.ArrowInvalid:
                pass
    if pa.types.is_date(column.type):
        return column.cast(pa.timestamp("us")).cast(kind)
    try:
        numbers = column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(column) == 1 or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return pa.nulls(len(column), kind)
        return pa.concat_arrays([as_time(column.slice(row, 1)) for row in range(len(column))])  # the texts differ in form
    scale = np.where(np.abs(numbers.to_numpy(zero_copy_only=False)) > MILLISECONDS, 1e3, 1e6)
    whole = pa.compute.multiply(numbers, pa.array(scale))
    return pa.compute.round(whole).cast(pa.int64()).cast(pa.timestamp("us")).cast(kind)


def _coded(column: Any) -> tuple[Codes, list[str]]:
    """A column's values as numbers, and the values as text by number."""
    pa = arrow()
    encoded = column if pa.types.is_dictionary(column.type) else column.combine_chunks().dictionary_encode()
    chunks = encoded.unify_dictionaries().chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks]).astype(np.int32, copy=False)
    return codes, chunks[0].dictionary.cast(pa.string()).to_pylist()


def _padded(column: Any, present: Bools) -> Floats:
    """Probabilities or marks by page and position: 1 beyond the end of a page, NaN where the column has none."""
    pa = arrow()
    flat = pa.compute.list_flatten(column)
    values = (flat.cast(pa.uint8()) if pa.types.is_boolean(flat.type) else flat).cast(pa.float64()).to_numpy()
    if not column.null_count:
        everywhere: Floats = _spread(values, present, 1.0)
        return everywhere
    given = column.is_valid().to_numpy()
    padded = np.where(given[:, None] | ~present, 1.0, np.nan)
    padded[present & given[:, None]] = values
    return padded


def _spread(values: Any, present: Bools, nothing: float) -> Any:
    """The joined values of all pages, by page and position."""
    if len(values) == present.size:  # all pages have the same length
        return np.array(values).reshape(present.shape)
    spread = np.full(present.shape, nothing, values.dtype)
    spread[present] = values
    return spread


def sessions_of(table: Any) -> Sessions:
    """Sessions from a table with checked rows."""
    pa = arrow()
    names = table.schema.names
    lengths = _sizes(table["items"].combine_chunks())
    width = int(lengths.max())
    present: Bools = np.arange(width)[None, :] < lengths[:, None]
    item_codes, item_ids = _coded(pa.compute.list_flatten(table["items"]))
    items = _spread(item_codes, present, EMPTY)
    clicks = _spread(pa.compute.list_flatten(table["clicks"]).cast(pa.uint8()).to_numpy(), present, 0)
    if "query" in names:
        query, query_ids = _coded(table["query"])
    else:
        query, query_ids = np.zeros(len(lengths), np.int32), [""]
    optional: dict[str, Any] = {}
    if "time" in names and not table["time"].null_count:
        times = as_time(table["time"].combine_chunks())
        if not times.null_count:
            optional["time"] = times.cast(pa.int64()).to_numpy() / 1e6
    for name in LISTED:
        if name in names and table[name].null_count < (len(table) if name == "conditional" else 1):
            optional[name] = _padded(table[name], present)
    if "joint" in names and not table["joint"].null_count:
        optional["joint"] = table["joint"].combine_chunks().cast(pa.float64()).to_numpy()
    if "seen" in names and table["seen"].null_count < len(table):
        optional["seen"] = _padded(table["seen"], present) != 0  # pages without this information count as seen
    return Sessions(query, items, clicks, query_ids, item_ids, **optional)

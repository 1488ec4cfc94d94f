"""Items in a CSV file: a heading, one row per item, and errors that name the row and the column.

Whether a column has numbers is decided by its first cells (at least one row, and all rows of up to ``CELLS`` cells): it has if
the first that is not empty is a number, or if at least as many are numbers as are words. Then every cell must be a number.
``columns.py`` chooses the features.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from recurrank._arrays import Floats
from recurrank.catalogue.columns import Column, Kind, Layout, layout

CELLS = 100_000
"""Cells converted to numbers at a time: text takes many times the memory of numbers."""
LONGEST = 256
"""Most characters of an id."""
PER_ID = 64
"""Bytes of memory per id, besides its letters."""
NOTHING = frozenset(("na", "n/a", "null", "none"))
"""Words that stand for a missing number."""
HEAD = 5
"""First rows that are kept as text, for a preview."""


class CsvItems(NamedTuple):
    """The contents of a CSV file; ``head`` has its first rows as text."""

    columns: list[str]
    layout: Layout
    features: Floats
    ids: list[str] | None
    head: list[list[str]]


class Check(Protocol):
    """Raises when a table becomes too large: its items, columns, and bytes of ids."""

    def __call__(self, items: int, columns: int, *, ids: int) -> None: ...


def read_csv_file(path: Path, features: str | Sequence[str] | None = None, ids: str | None = None) -> CsvItems:
    """:func:`read_csv` of a file, which errors name."""
    try:
        return read_csv(path.read_bytes(), features=features, ids=ids)
    except ValueError as error:
        raise ValueError(f"{path}: {str(error).removeprefix('file: ')}") from error


def read_csv(
    body: bytes, check: Check | None = None, features: str | Sequence[str] | None = None, ids: str | None = None
) -> CsvItems:
    """The items in a CSV file; ValueError says in one line what is wrong, and where.

    ``check`` is called during reading; ``features`` and ``ids`` name columns if the rule of ``columns.py`` does not fit.
    """
    rows = _rows(body)
    _, columns = next(rows, (0, []))
    if check is not None:
        check(0, len(columns), ids=0)
    _check_heading(columns)
    names: list[str] = []
    parts: list[Floats] = []
    items, letters = 0, 0
    for chunk in _chunks(rows, max(1, CELLS // len(columns))):
        if {len(row) for _, row in chunk} != {len(columns)}:
            number, row = next((number, row) for number, row in chunk if len(row) != len(columns))
            raise ValueError(f"row {number}: {len(row)} cells, but the heading has {len(columns)}")
        if not parts:
            head = [row for _, row in chunk[:HEAD]]
            kinds = [_kind(cells) for cells in zip(*(row for _, row in chunk), strict=True)]
            described = [Column(name, kind, "text") for name, kind in zip(columns, kinds, strict=True)]
            used_as = layout("file", described, features, ids, text_names=True)
            used = [columns.index(column.name) for column in used_as.features]
        if used_as.ids is not None:
            names += _ids(chunk, columns.index(used_as.ids.name), used_as.ids.name)
            letters += sum(map(len, names[items:]))
        items += len(chunk)
        if check is not None:
            check(items, len(used), ids=letters + PER_ID * len(names))
        parts.append(_numbers(chunk, used, columns))
    if not parts:
        raise ValueError("file: a heading and no rows; give one row per item")
    return CsvItems(columns, used_as, np.concatenate(parts), names if used_as.ids else None, head)


def _rows(body: bytes) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of its last line."""
    first = body[: body.find(b"\n")] if b"\n" in body else body
    delimiter = next((mark for mark in (",", ";", "\t") if mark.encode() in first), ",")
    text = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", newline="")  # decoded incrementally
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row and (row[0].strip() or any(cell.strip() for cell in row)):
                yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise ValueError(f"file: byte {_not_utf8(body):,} is not UTF-8; save the file as CSV in UTF-8") from error
    except csv.Error as error:
        raise ValueError(f"row {reader.line_num}: {error}") from error


def _not_utf8(body: bytes) -> int:
    """The offset of the first byte that cannot be decoded."""
    try:
        body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return error.start
    return len(body)


def _check_heading(columns: list[str]) -> None:
    if not columns:
        raise ValueError("file: empty; give a heading and one row per item")
    if all(_number(name) is not None for name in columns):
        raise ValueError("row 1: numbers only; the first row should be a heading that names the columns")
    seen: set[str] = set()
    for number, name in enumerate(columns, start=1):
        if not name.strip():
            raise ValueError(f"row 1: column {number} has no name")
        if name in seen:
            raise ValueError(f"row 1: two columns are called {name[:40]!r}")
        seen.add(name)


def _kind(cells: Sequence[str]) -> Kind:
    """The kind of a column, by its first cells."""
    filled = [cell for cell in cells if cell.strip()]
    others = [cell for cell in filled if _number(cell) is None]
    numbers = len(filled) - len(others)
    if numbers and (numbers >= sum(map(_is_word, others)) or _number(filled[0]) is not None):
        return Kind.NUMBERS
    return Kind.BESIDE


def _is_word(cell: str) -> bool:
    """Whether a cell that is not a number is text: not, for example, "1,000", "-" or "n/a"."""
    return any(map(str.isalpha, cell)) and cell.strip().casefold() not in NOTHING


def _chunks(rows: Iterator[tuple[int, list[str]]], size: int) -> Iterator[list[tuple[int, list[str]]]]:
    while chunk := list(islice(rows, size)):
        yield chunk


def _ids(chunk: list[tuple[int, list[str]]], named: int, column: str) -> list[str]:
    names = [row[named] for _, row in chunk]
    if not all(names) or max(map(len, names)) > LONGEST:
        number, length = next((number, len(row[named])) for number, row in chunk if not 1 <= len(row[named]) <= LONGEST)
        raise ValueError(f"row {number}, column {column!r}: an id has 1 to {LONGEST} letters, this one {length}")
    return names


def _numbers(chunk: list[tuple[int, list[str]]], used: list[int], columns: list[str]) -> Floats:
    try:
        cells = itemgetter(*used)
        numbers = np.array([cells(row) for _, row in chunk]).astype(np.float64).reshape(len(chunk), len(used))
        if np.isfinite(numbers).all():
            return numbers
    except ValueError:
        pass
    for line, row in chunk:
        for column in used:
            number = _number(row[column])
            if number is None or not np.isfinite(number):
                shown = repr(row[column][:40]) if row[column].strip() else "an empty cell"
                raise ValueError(f"row {line}, column {columns[column]!r}: {shown} is not a number")
    raise ValueError("file: a cell is not a number")  # unreachable: one of them was not a number


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None

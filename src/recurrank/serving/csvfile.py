"""Items in a CSV file: a heading, one row per item, and errors that name the row and the column.

A column called ``id`` names the items; without one the first column does whose first cell is not a number. The other columns
are features when their first cell is a number, and are left out when it is not: every cell of a feature has to be one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np

from recurrank._arrays import Floats
from recurrank.catalogue import Catalogue

CELLS = 100_000
"""Cells turned into numbers at a time: text takes many times the memory of numbers."""
LONGEST = 256
"""Letters of an id."""
PER_ID = 64
"""Bytes of memory that an id takes besides its letters."""
HEAD = 5
"""Rows that are kept as text, to be looked at."""


class CsvItems(NamedTuple):
    """What a CSV file says. ``named`` is the column of the ids, ``used`` are those of the features."""

    columns: list[str]
    named: int | None
    used: list[int]
    ids: list[str]
    features: Floats
    head: list[list[str]]

    def catalogue(self) -> Catalogue:
        """The items; ValueError for those that are none."""
        return Catalogue(self.features, None if self.named is None else self.ids)


class Check(Protocol):
    """Raises when a table becomes too large: its items, columns, and bytes of ids."""

    def __call__(self, items: int, columns: int, *, ids: int) -> None: ...


def read_csv(body: bytes, check: Check | None = None) -> CsvItems:
    """The items in a CSV file; ValueError says in one line what is wrong, and where.

    ``check`` is called while it is read.
    """
    rows = _rows(body)
    _, columns = next(rows, (0, []))
    if check is not None:
        check(0, len(columns), ids=0)
    _check_heading(columns)
    named: int | None = None
    used: list[int] = []
    ids: list[str] = []
    head: list[list[str]] = []
    parts: list[Floats] = []
    items, letters = 0, 0
    for chunk in _chunks(rows, max(1, CELLS // len(columns))):
        if {len(row) for _, row in chunk} != {len(columns)}:
            number, row = next((number, row) for number, row in chunk if len(row) != len(columns))
            raise ValueError(f"row {number}: {len(row)} cells, but the heading has {len(columns)}")
        if not parts:
            named, used = _roles(columns, chunk[0][1])
            head = [row for _, row in chunk[:HEAD]]
        if named is not None:
            ids += _ids(chunk, named, columns[named])
            letters += sum(map(len, ids[items:]))
        items += len(chunk)
        if check is not None:
            check(items, len(used), ids=letters + PER_ID * len(ids))
        parts.append(_numbers(chunk, used, columns))
    if not parts:
        raise ValueError("file: a heading and no rows; give one row per item")
    return CsvItems(columns, named, used, ids, np.concatenate(parts), head)


def _rows(body: bytes) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, with the lines they end at."""
    first = body[: body.find(b"\n")] if b"\n" in body else body
    delimiter = next((mark for mark in (",", ";", "\t") if mark.encode() in first), ",")
    text = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", newline="")  # decoded piece by piece
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
    """Where the first byte is that cannot be decoded."""
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
    for place, name in enumerate(columns):
        if not name.strip():
            raise ValueError(f"row 1: column {place + 1} has no name")
        if name in seen:
            raise ValueError(f"row 1: two columns are called {name[:40]!r}")
        seen.add(name)


def _chunks(rows: Iterator[tuple[int, list[str]]], size: int) -> Iterator[list[tuple[int, list[str]]]]:
    while chunk := list(islice(rows, size)):
        yield chunk


def _roles(columns: list[str], first: list[str]) -> tuple[int | None, list[int]]:
    """Which column names the items, and which are features."""
    words = [place for place, cell in enumerate(first) if _number(cell) is None]
    named = next((place for place, name in enumerate(columns) if name.strip().casefold() == "id"), words[0] if words else None)
    left_out = {named, *words}
    used = [place for place in range(len(columns)) if place not in left_out]
    if not used:
        raise ValueError("row 2: no column of numbers; give at least one feature per row")
    return named, used


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
    for number, row in chunk:
        for place in used:
            found = _number(row[place])
            if found is None or not np.isfinite(found):
                shown = repr(row[place][:40]) if row[place].strip() else "an empty cell"
                raise ValueError(f"row {number}, column {columns[place]!r}: {shown} is not a number")
    raise ValueError("file: a cell is not a number")  # cannot be: one of them was not


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None

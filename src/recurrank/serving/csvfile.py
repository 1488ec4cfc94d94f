"""Items in a CSV file: a heading, a row an item, and errors that name the row and the column.

A column called ``id`` names the items; without one the first column does whose first cell is no number. The other columns are
features when their first cell is a number, and are left out when it is not: every cell of a feature has to be one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats
from recurrank.catalogue import Catalogue

CHUNK = 10_000
"""Rows turned into numbers at a time: text takes many times the memory of numbers."""
LONGEST = 256
"""Letters of an id."""
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


def read_csv(body: bytes) -> CsvItems:
    """The items in a CSV file; ValueError says in one line what is wrong, and where."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"file: byte {error.start:,} is not UTF-8; save the file as CSV in UTF-8") from error
    rows = _rows(text)
    _, columns = next(rows, (0, []))
    _check_heading(columns)
    named: int | None = None
    used: list[int] = []
    ids: list[str] = []
    head: list[list[str]] = []
    parts: list[Floats] = []
    for chunk in _chunks(rows):
        for number, row in chunk:
            if len(row) != len(columns):
                raise ValueError(f"row {number}: {len(row)} cells, but the heading has {len(columns)}")
        if not parts:
            named, used = _roles(columns, chunk[0][1])
            head = [row for _, row in chunk[:HEAD]]
        if named is not None:
            ids += _ids(chunk, named, columns[named])
        parts.append(_numbers(chunk, used, columns))
    if not parts:
        raise ValueError("file: a heading and no rows; give a row an item")
    return CsvItems(columns, named, used, ids, np.concatenate(parts), head)


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, with the lines they end at."""
    first = text[: text.find("\n")] if "\n" in text else text
    delimiter = next((mark for mark in (",", ";", "\t") if mark in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row and any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"row {reader.line_num}: {error}") from error


def _check_heading(columns: list[str]) -> None:
    if not columns:
        raise ValueError("file: empty; give a heading and a row an item")
    if all(_number(name) is not None for name in columns):
        raise ValueError("row 1: numbers only; the first row should be a heading that names the columns")
    for place, name in enumerate(columns):
        if not name.strip():
            raise ValueError(f"row 1: column {place + 1} has no name")
        if name in columns[:place]:
            raise ValueError(f"row 1: two columns are called {name!r}")


def _chunks(rows: Iterator[tuple[int, list[str]]]) -> Iterator[list[tuple[int, list[str]]]]:
    chunk: list[tuple[int, list[str]]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _roles(columns: list[str], first: list[str]) -> tuple[int | None, list[int]]:
    """Which column names the items, and which are features."""
    words = [place for place, cell in enumerate(first) if _number(cell) is None]
    named = next((place for place, name in enumerate(columns) if name.strip().casefold() == "id"), words[0] if words else None)
    used = [place for place in range(len(columns)) if place != named and place not in words]
    if not used:
        raise ValueError("row 2: no column of numbers; give at least one feature a row")
    return named, used


def _ids(chunk: list[tuple[int, list[str]]], named: int, column: str) -> list[str]:
    for number, row in chunk:
        if not 1 <= len(row[named]) <= LONGEST:
            raise ValueError(f"row {number}, column {column!r}: an id has 1 to {LONGEST} letters, this one {len(row[named])}")
    return [row[named] for _, row in chunk]


def _numbers(chunk: list[tuple[int, list[str]]], used: list[int], columns: list[str]) -> Floats:
    try:
        numbers = np.array([[row[place] for place in used] for _, row in chunk]).astype(np.float64)
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

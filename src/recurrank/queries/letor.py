"""SVMrank (LETOR) files, plain or gzip, as a stream of whole queries.

Blocks of several megabytes are cut at line ends and parsed by compiled code, one per processor at a time. Queries that span
blocks are joined, scaled and returned in the file's order. Memory does not depend on the size of the file; a block with a
large feature number is cut into pieces, so that only documents near it are as wide.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Floats, Ints
from recurrank.queries.parsing import OK, REASONS, WIDER, normalise, parse, powers_of_ten
from recurrank.queries.room import PIECE, Room

BLOCK = 1 << 23
"""Bytes that are parsed at a time."""
LONGEST = 1 << 26
"""Most bytes of a line."""
NEWLINE = 10

Block = tuple[NDArray[np.uint8], int]
"""Whole lines, then eight zeros; and the number of the first line, from 0."""
Progress = Callable[[int, int], None]
"""Called with the bytes read and the bytes of the file."""


class Part(NamedTuple):
    """Some whole queries of a file, in its order."""

    values: Floats  # (n, d) d differs from part to part
    labels: Ints  # (n,)
    offsets: Ints  # (q + 1,) the row where each query begins, and the number of rows
    queries: Ints  # (q,) their numbers in the file


class _Rows(NamedTuple):
    """The documents of one piece of the file."""

    values: Floats
    labels: Ints
    queries: Ints
    lines: Ints
    widest: int  # the line with the largest feature number


def read_parts(path: Path, room: Room, scale: bool = True, progress: Progress | None = None) -> Iterator[Part]:
    """The queries of a file; ValueError, in one line, with the number of the line, for an invalid file.

    Also if all documents so far, as wide as the widest, would exceed ``room``.
    """
    seen: set[int] = set()
    left: list[_Rows] = []  # documents of one query, which may have more
    count, dim, widest = 0, 0, 0
    for rows in _parsed(path, progress):
        if not len(rows.labels):
            continue
        count += len(rows.labels)
        if rows.values.shape[1] > dim:
            dim, widest = rows.values.shape[1], rows.widest
        room.check(f"{path}, line {widest + 1:,}", count, dim)
        same = left[0].queries[0] == rows.queries if left else np.zeros(len(rows.queries), np.bool_)
        ends = len(same) if same.all() else int(np.argmin(same))  # where the query ends that began earlier
        if ends:
            left.append(_cut(rows, 0, ends))
        if ends == len(same):
            continue
        if left:
            yield _finish(path, _joined(path, left), seen, scale)
        starts = np.flatnonzero(np.diff(rows.queries)) + 1
        last = max(ends, int(starts[-1]) if len(starts) else 0)
        if last > ends:
            yield _finish(path, _cut(rows, ends, last), seen, scale)
        left = [_cut(rows, last, len(rows.labels))]
    if not left:
        raise ValueError(f"{path}: has no documents; give lines like '2 qid:1 1:0.5 2:3'")
    yield _finish(path, _joined(path, left), seen, scale)


def _finish(path: Path, rows: _Rows, seen: set[int], scale: bool) -> Part:
    starts = np.flatnonzero(np.diff(rows.queries)) + 1
    offsets = np.concatenate([[0], starts, [len(rows.queries)]])
    queries = rows.queries[offsets[:-1]]
    for number, query in enumerate(queries.tolist()):
        if query in seen:
            line = int(rows.lines[offsets[number]]) + 1
            raise ValueError(f"{path}, line {line:,}: query {query} began earlier in the file; its documents must be adjacent")
        seen.add(query)
    if scale:
        normalise(rows.values, offsets)
    return Part(rows.values, rows.labels, offsets, queries)


def _joined(path: Path, pieces: list[_Rows]) -> _Rows:
    """Consecutive pieces as one; every query is in memory as a whole."""
    if len(pieces) == 1:
        return pieces[0]
    count, widest = sum(len(piece.labels) for piece in pieces), max(pieces, key=lambda piece: piece.values.shape[1])
    dim = widest.values.shape[1]
    Room.in_memory().check(f"{path}, line {widest.widest + 1:,}", count, dim)
    values, row = np.zeros((count, dim)), 0
    for piece in pieces:
        values[row : row + len(piece.labels), : piece.values.shape[1]] = piece.values
        row += len(piece.labels)
    labels, queries, lines = (np.concatenate(column) for column in zip(*(piece[1:4] for piece in pieces), strict=True))
    return _Rows(values, labels, queries, lines, widest.widest)


def _cut(rows: _Rows, start: int, stop: int) -> _Rows:
    values, labels, queries, lines, widest = rows
    return _Rows(values[start:stop], labels[start:stop], queries[start:stop], lines[start:stop], widest)


def _parsed(path: Path, progress: Progress | None) -> Iterator[_Rows]:
    """The documents of each block in order; some blocks are parsed ahead, one per processor."""
    workers = os.cpu_count() or 1
    ahead: deque[tuple[Block, Future[_Rows | None]]] = deque()
    width = 0

    def pieces(block: Block, parsed: _Rows | None) -> Iterator[_Rows]:
        nonlocal width
        for rows in _halves(path, *block) if parsed is None else [parsed]:
            width = max(width, rows.values.shape[1])
            yield rows

    with ThreadPoolExecutor(workers) as pool:
        try:
            for block in _blocks(path, progress):
                if not width:  # the first block determines the number of features
                    yield from pieces(block, _parse(path, *block, width))
                    continue
                ahead.append((block, pool.submit(_parse, path, *block, width)))
                if len(ahead) > workers:
                    first, future = ahead.popleft()
                    yield from pieces(first, future.result())
            while ahead:
                first, future = ahead.popleft()
                yield from pieces(first, future.result())
        finally:
            for _, waiting in ahead:
                waiting.cancel()


def _halves(path: Path, data: NDArray[np.uint8], line: int) -> Iterator[_Rows]:
    """The documents of a block that is too large as a whole, in halves, each only as wide as it needs to be."""
    ends = np.flatnonzero(data == NEWLINE) + 1
    middle = len(ends) // 2
    cut = int(ends[middle - 1])
    halves: list[Block] = [(np.concatenate([data[:cut], np.zeros(8, np.uint8)]), line), (data[cut:], line + middle)]
    for block in halves:
        rows = _parse(path, *block, 0)
        if rows is None:
            yield from _halves(path, *block)
        else:
            yield rows


def _parse(path: Path, data: NDArray[np.uint8], line: int, width: int) -> _Rows | None:
    """The documents of one block, whose first line is number ``line`` of the file, from 0; None if they are too large.

    ``width`` is the probable number of features.
    """
    rows = int(np.count_nonzero(data == NEWLINE))
    while True:
        values = np.zeros((rows, width if _fits(rows, width) else 0))
        columns = np.zeros((3, rows), np.int64)
        count, result, where, most = parse(data, powers_of_ten(), values, columns[0], columns[1], columns[2])
        if result == OK:
            return _Rows(values[:count], columns[0, :count], columns[1, :count], columns[2, :count] + line, where + line)
        if result != WIDER:
            raise ValueError(f"{path}, line {line + where + 1:,}: {REASONS[result]}")
        if not _fits(rows, most):
            return None
        width = most


def _fits(rows: int, width: int) -> bool:
    """Whether a block is small enough to parse as a whole; a single document always is."""
    return rows < 2 or 8 * rows * width <= PIECE


def _blocks(path: Path, progress: Progress | None) -> Iterator[Block]:
    """The file in blocks of several megabytes."""
    line, rest = 0, b""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        stream = _plain(file)
        while True:
            try:
                read = stream.read(BLOCK)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise ValueError(f"{path}: a damaged gzip file ({error})") from error
            if progress is not None:
                progress(min(file.tell(), size), size)
            end = read.rfind(b"\n") + 1
            if read and not end:
                rest += read
                if len(rest) > LONGEST:
                    raise ValueError(f"{path}, line {line + 1:,}: longer than {LONGEST >> 20} MB; is this an SVMrank file?")
                continue
            whole = rest + read[:end] + bytes(8) if read else rest + b"\n" + bytes(8)
            if read or rest:
                data = np.frombuffer(whole, np.uint8)
                yield data, line
                line += int(np.count_nonzero(data == NEWLINE))
            if not read:
                return
            rest = read[end:]


def _plain(file: IO[bytes]) -> Any:
    """The file's bytes, decompressed if it is gzip."""
    magic = file.read(2)
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if magic == b"\x1f\x8b" else file

"""SVMrank (LETOR) files, plain or gzip, as a stream of whole queries.

Blocks of some megabytes are cut at line ends and parsed by compiled code, one per processor at a time; queries that go across
blocks are put together, scaled and handed on in the file's order. Memory does not depend on the size of the file.
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

BLOCK = 1 << 23
"""Bytes that are parsed at a time."""
LONGEST = 1 << 26
"""Bytes of a line, at most."""
NEWLINE = 10

Progress = Callable[[int, int], None]
"""Called with the bytes read and the bytes of the file."""


class Part(NamedTuple):
    """Some whole queries of a file, in its order."""

    values: Floats  # (n, d) d may grow from part to part
    labels: Ints  # (n,)
    offsets: Ints  # (q + 1,) where each query begins, from 0
    queries: Ints  # (q,) what the file calls them


class _Rows(NamedTuple):
    """The documents of one block."""

    values: Floats
    labels: Ints
    queries: Ints
    lines: Ints


def read_parts(path: Path, scale: bool = True, progress: Progress | None = None) -> Iterator[Part]:
    """The queries of a file; ValueError, in one line, for what is not such a file, with the number of the line."""
    seen: set[int] = set()
    left: _Rows | None = None
    for rows in _parsed(path, progress):
        whole = rows if left is None else _joined(left, rows)
        if not len(whole.labels):
            continue
        starts = np.flatnonzero(np.diff(whole.queries)) + 1
        last = int(starts[-1]) if len(starts) else 0  # the last query may go on
        if last:
            yield _finish(path, _cut(whole, 0, last), np.concatenate([[0], starts]), seen, scale)
        left = _cut(whole, last, len(whole.labels))
    if left is None or not len(left.labels):
        raise ValueError(f"{path}: has no documents; give lines like '2 qid:1 1:0.5 2:3'")
    yield _finish(path, left, np.array([0, len(left.labels)]), seen, scale)


def _finish(path: Path, rows: _Rows, offsets: Ints, seen: set[int], scale: bool) -> Part:
    queries = rows.queries[offsets[:-1]]
    for place, query in enumerate(queries.tolist()):
        if query in seen:
            line = int(rows.lines[offsets[place]]) + 1
            raise ValueError(
                f"{path}, line {line:,}: query {query} began earlier in the file; its documents must stand together"
            )
        seen.add(query)
    if scale:
        normalise(rows.values, offsets)
    return Part(rows.values, rows.labels, offsets, queries)


def _joined(first: _Rows, second: _Rows) -> _Rows:
    wide = max(first.values.shape[1], second.values.shape[1])
    values = np.zeros((len(first.labels) + len(second.labels), wide))
    values[: len(first.labels), : first.values.shape[1]] = first.values
    values[len(first.labels) :, : second.values.shape[1]] = second.values
    others = (np.concatenate([a, b]) for a, b in zip(first[1:], second[1:], strict=True))
    return _Rows(values, *others)


def _cut(rows: _Rows, start: int, stop: int) -> _Rows:
    values, labels, queries, lines = rows
    return _Rows(values[start:stop], labels[start:stop], queries[start:stop], lines[start:stop])


def _parsed(path: Path, progress: Progress | None) -> Iterator[_Rows]:
    """The documents of each block in order; some blocks are parsed ahead, one per processor."""
    workers = os.cpu_count() or 1
    ahead: deque[Future[_Rows]] = deque()
    width = 0
    with ThreadPoolExecutor(workers) as pool:
        try:
            for data, line in _blocks(path, progress):
                if width:
                    ahead.append(pool.submit(_parse, path, data, line, width))
                    if len(ahead) <= workers:
                        continue
                    rows = ahead.popleft().result()
                else:  # the first block tells how many features there are
                    rows = _parse(path, data, line, width)
                width = max(width, rows.values.shape[1])
                yield rows
            while ahead:
                yield ahead.popleft().result()
        finally:
            for waiting in ahead:
                waiting.cancel()


def _parse(path: Path, data: NDArray[np.uint8], line: int, width: int) -> _Rows:
    """The documents of one block, whose first line is number ``line`` of the file, from 0."""
    rows = int(np.count_nonzero(data == NEWLINE))
    while True:
        values = np.zeros((rows, width))
        found = np.zeros((3, rows), np.int64)
        count, result, where, most = parse(data, powers_of_ten(), values, found[0], found[1], found[2])
        if result == OK:
            return _Rows(values[:count], found[0, :count], found[1, :count], found[2, :count] + line)
        if result != WIDER:
            raise ValueError(f"{path}, line {line + where + 1:,}: {REASONS[result]}")
        width = most


def _blocks(path: Path, progress: Progress | None) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Whole lines, some megabytes of them, followed by eight zeros; and the number of the first line, from 0."""
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
    """The bytes behind gzip, where it is that."""
    magic = file.read(2)
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if magic == b"\x1f\x8b" else file

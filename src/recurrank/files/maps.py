"""Maps: what a Parquet dataset is converted to once, so that it can be read in place ever after.

A map is a folder beside the dataset (``items.parquet.map``) with

    features.npy   float32, a row an item, to be mapped into memory
    ids, ids.npy   the ids' text end to end, and where each begins
    about.json     what it was made of, column scales, sizes; written last

It is made in ``items.parquet.map.part`` and renamed when it is complete. If that is interrupted, the next call goes on
where it stopped: ``done`` lists the row groups that are written, with a checksum each, which is compared first. If
something is wrong with the data or the disk is full, the folder is removed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Features, Floats
from recurrank.files.names import Names
from recurrank.files.parquet import Dataset, Group, Progress

FORMAT = 1


class Map(NamedTuple):
    """A catalogue that lies in a map."""

    features: Features
    ids: Names | None
    scales: Floats


def open_map(folder: Path) -> Map:
    """The catalogue in a map; ValueError, in one line, for a folder that is none or is damaged."""
    about = _about(folder)
    if about is None:
        raise ValueError(f"{folder}: not a map; give the Parquet file that it should be made of")
    rows, dim = about["rows"], about["dim"]
    path = folder / "features.npy"
    size = path.stat().st_size if path.is_file() else 0
    whole = len(npy_header((rows, dim), "<f4")) + rows * dim * 4
    if size != whole:
        raise ValueError(f"{path}: {size:,} bytes instead of {whole:,}; delete {folder.name} and convert it again")
    features = np.load(path, mmap_mode="r", allow_pickle=False)
    if features.shape != (rows, dim) or features.dtype != np.float32:
        raise ValueError(f"{path}: {features.shape} {features.dtype} instead of ({rows}, {dim}) float32; delete {folder.name}")
    ids = Names.open(folder / "ids", folder / "ids.npy") if about["ids"] else None
    if ids is not None and len(ids) != rows:
        raise ValueError(f"{folder}: {len(ids)} ids for {rows} items; delete it and convert again")
    return Map(features, ids, np.array(about["scales"]))


def convert(dataset: Dataset, folder: Path, progress: Progress | None = None) -> None:
    """Make the map of a dataset, unless it is there already. Two processes that try do it once."""
    source = _source(dataset)
    if _made_of(folder, source):
        return
    part = folder.with_name(folder.name + ".part")
    try:
        part.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{part}: cannot be made ({error.strerror}); say where the map should be") from error
    with _alone(part):
        if _made_of(folder, source):  # another process has just made it
            shutil.rmtree(part, ignore_errors=True)
            return
        try:
            _Conversion(dataset, part, source, progress).run()
            _replace(part, folder)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            raise ValueError(f"{folder}: could not be written ({error.strerror or error}); nothing is left of it") from error
        except ValueError:
            shutil.rmtree(part, ignore_errors=True)
            raise


class _Done(NamedTuple):
    """A row group that is written: a line of the journal. Groups are entered in order."""

    start: int
    checksum: int
    scales: list[float]
    letters: int  # where its ids end


class _Conversion:
    """One run: what was done before, what is to be done, and the files."""

    def __init__(self, dataset: Dataset, part: Path, source: dict[str, Any], progress: Progress | None) -> None:
        self.dataset, self.part, self.source, self.progress = dataset, part, source, progress
        self.dim, self.rows, self.named = dataset.dim, dataset.rows, dataset.layout.ids
        self.head = npy_header((self.rows, self.dim), "<f4")
        self.ends_head = npy_header((self.rows + 1,), "<i8")
        self._counting = threading.Lock()
        self._rows_done = 0

    def run(self) -> None:
        """Write what is missing, and say what it is."""
        before = self._journal()
        with contextlib.ExitStack() as files:
            file = self._open(files, "features.npy", len(self.head) + self.rows * self.dim * 4)
            os.pwrite(file, self.head, 0)
            before = before[: self._intact(file, before)]
            self._count(sum(group.rows for group in self.dataset.groups[: len(before)]))
            journal = files.enter_context(open(self.part / "done", "w", buffering=1))  # a line at a time
            journal.writelines(json.dumps(done) + "\n" for done in before)
            text = self._text(files, before[-1].letters if before else 0)
            syncing = files.enter_context(ThreadPoolExecutor(1))
            scales = np.zeros(self.dim)
            for done in before:
                np.maximum(scales, done.scales, out=scales)
            for group, here, checksum, ids in self._written(file, self.dataset.groups[len(before) :]):
                np.maximum(scales, here, out=scales)
                letters = text(group.start, ids)
                journal.write(json.dumps(_Done(group.start, checksum, here.tolist(), letters)) + "\n")
                syncing.submit(os.fsync, file)  # meanwhile, so that little is left to be done at the end
            syncing.shutdown(cancel_futures=True)
            os.fsync(file)
        self._finish(scales)

    def _journal(self) -> list[_Done]:
        """What an earlier run of the same conversion has written; nothing if that was another one."""
        source, journal = self.part / "source.json", self.part / "done"
        if not (source.is_file() and journal.is_file() and source.read_text() == json.dumps(self.source)):
            for stale in self.part.iterdir():
                stale.unlink()
            source.write_text(json.dumps(self.source))
            return []
        found = []
        for line in journal.read_text().splitlines():
            with contextlib.suppress(ValueError):  # the last one may be torn
                found.append(_Done(*json.loads(line)))
        return found

    def _intact(self, file: int, before: list[_Done]) -> int:
        """How many groups, from the first on, still have their checksum."""
        for number, (group, done) in enumerate(zip(self.dataset.groups, before, strict=False)):
            checksum, at, left = 0, self._at(group.start), group.rows * self.dim * 4
            while left:
                data = os.pread(file, min(left, 1 << 24), at)
                checksum, at, left = zlib.crc32(data, checksum), at + len(data), left - len(data)
            if (group.start, checksum) != (done.start, done.checksum):
                return number
        return len(before)

    def _open(self, files: contextlib.ExitStack, name: str, size: int) -> int:
        """A file with all its room at once, so that a disk that is too full says so before the work is done."""
        file = os.open(self.part / name, os.O_RDWR | os.O_CREAT, 0o644)
        files.callback(os.close, file)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        os.ftruncate(file, size)
        return file

    def _text(self, files: contextlib.ExitStack, letters: int) -> Callable[[int, list[Any]], int]:
        """How to write a group's ids after the others, of which there are so many letters; where they then end."""
        if self.named is None:
            return lambda start, ids: 0
        text = os.open(self.part / "ids", os.O_WRONLY | os.O_CREAT, 0o644)
        files.callback(os.close, text)
        os.ftruncate(text, letters)
        file = self._open(files, "ids.npy", len(self.ends_head) + (self.rows + 1) * 8)
        os.pwrite(file, self.ends_head + bytes(8), 0)
        end = letters

        def write(start: int, ids: list[Any]) -> int:
            nonlocal end
            at = len(self.ends_head) + (start + 1) * 8
            for column in ids:
                places, written = _letters(column)
                _write_all(text, written, end)
                ends = places[1:] - places[0] + end
                _write_all(file, memoryview(ends).cast("B"), at)
                end, at = int(ends[-1]), at + ends.nbytes
            return end

        return write

    def _written(self, file: int, groups: list[Group]) -> Iterator[tuple[Group, Floats, int, list[Any]]]:
        """Every group in order, once it is written; some are read ahead, one a processor."""
        workers, alone = os.cpu_count() or 1, len(groups) == 1
        ahead: deque[tuple[Group, Future[tuple[Floats, int, list[Any]]]]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            try:
                for group in groups:
                    ahead.append((group, pool.submit(self._write, file, group, alone)))
                    if len(ahead) > 2 * workers:
                        first, result = ahead.popleft()
                        yield first, *result.result()
                while ahead:
                    first, result = ahead.popleft()
                    yield first, *result.result()
            finally:
                for _, waiting in ahead:
                    waiting.cancel()

    def _write(self, file: int, group: Group, alone: bool) -> tuple[Floats, int, list[Any]]:
        """Read one group and write its features: its scales, a checksum and its ids."""
        scales, checksum, ids = np.zeros(self.dim), 0, []
        for part in self.dataset.read(group, threads=alone):
            np.maximum(scales, part.scales, out=scales)
            data = part.features.data.cast("B")
            checksum = zlib.crc32(data, checksum)
            _write_all(file, data, self._at(part.start))
            if part.ids is not None:
                ids.append(part.ids)
            self._count(len(part.features))
        return scales, checksum, ids

    def _count(self, rows: int) -> None:
        with self._counting:
            self._rows_done += rows
            if self.progress is not None:
                self.progress(self._rows_done, self.rows)

    def _finish(self, scales: Floats) -> None:
        """Look at what only the whole shows, and write what the map is."""
        name = self.dataset.files[0]
        if self.named is not None:
            ids = Names.open(self.part / "ids", self.part / "ids.npy")
            repeated = ids.repeated()
            if repeated is not None:
                raise ValueError(
                    f"{name}: column {self.named!r}: {ids[repeated[1]]!r} is the id of items {repeated[0]} and {repeated[1]}; "
                    "ids must all be different"
                )
        if not scales.any():
            raise ValueError(f"{name}: every feature of every item is zero; at least one direction to differ in is needed")
        about = {"format": FORMAT, "rows": self.rows, "dim": self.dim, "ids": self.named, "scales": scales.tolist()}
        for leftover in ("source.json", "done"):
            (self.part / leftover).unlink()
        (self.part / "about.json").write_text(json.dumps({**about, "source": self.source}, indent=1))

    def _at(self, row: int) -> int:
        return len(self.head) + row * self.dim * 4


def _letters(column: Any) -> tuple[NDArray[np.int64], memoryview]:
    """Where each of pyarrow's strings begins, and their text."""
    _, offsets, letters = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return places, memoryview(letters or b"").cast("B")[places[0] : places[-1]]


def _write_all(file: int, data: memoryview, at: int) -> None:
    while len(data):
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


def npy_header(shape: tuple[int, ...], kind: str) -> bytes:
    """What stands before the numbers in a .npy file."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": shape})
    return head.getvalue()


def _source(dataset: Dataset) -> dict[str, Any]:
    """What a map depends on."""
    layout = dataset.layout
    return {"files": [list(file) for file in dataset.sources()], "features": list(layout.features), "ids": layout.ids}


def _about(folder: Path) -> dict[str, Any] | None:
    try:
        about: dict[str, Any] = json.loads((folder / "about.json").read_text())
    except (OSError, ValueError):
        return None
    if about.get("format") != FORMAT:
        raise ValueError(f"{folder}: a map of format {about.get('format')}; this version knows {FORMAT}; delete it")
    return about


def _made_of(folder: Path, source: dict[str, Any]) -> bool:
    about = _about(folder)
    return about is not None and about["source"] == source


def _replace(part: Path, folder: Path) -> None:
    """Put the finished map where it belongs, in place of one of older data."""
    old = folder.with_name(folder.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Let one process at a time work beside a dataset; the others wait."""
    try:
        import fcntl
    except ImportError:  # Windows: there the second one fails to replace what the first has open
        yield
        return
    folder = os.open(part.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        part.mkdir(exist_ok=True)  # one that was before us may have taken it away
        yield
    finally:
        os.close(folder)

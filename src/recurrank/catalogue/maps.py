"""Maps: a Parquet dataset is converted to one once, and read in place from then on.

A map is a folder beside the dataset (``items.parquet.map``) with

    features.npy   float32, one row per item, to be mapped into memory
    ids, ids.npy   the joined text of the ids, and the offset of each
    about.json     its source, column scales, sizes; written last

It is made in ``items.parquet.map.part`` and renamed when it is complete. After an interruption, the next call resumes:
``done`` lists the row groups that are written, each with a checksum, which is verified first. If the data is invalid or
the disk is full, the folder is removed.
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
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Features, Floats
from recurrank.catalogue.ids import Names
from recurrank.catalogue.parquet import Dataset, Group, Progress

FORMAT = 1
OURS = ("features.npy", "ids", "ids.npy", "about.json", "source.json", "done")


class Map(NamedTuple):
    """A catalogue stored in a map."""

    features: Features
    ids: Names | None
    scales: Floats


def open_map(folder: Path) -> Map:
    """The catalogue in a map; ValueError, in one line, for a folder that is not a map, or a damaged one."""
    about = _about(folder)
    if about is None:
        raise ValueError(f"{folder}: not a map, or a damaged one; give the Parquet file that it should be made of")
    path = folder / "features.npy"
    try:
        rows, dim, scales = int(about["rows"]), int(about["dim"]), np.array(about["scales"], dtype=np.float64)
        size = path.stat().st_size if path.is_file() else 0
        whole = len(npy_header((rows, dim), "<f4")) + rows * dim * 4
        if size != whole:
            raise ValueError(f"features.npy has {size:,} bytes instead of {whole:,}")
        features = np.load(path, mmap_mode="r", allow_pickle=False)
        ids = Names.open(folder / "ids", folder / "ids.npy") if about["ids"] is not None else None
        if features.shape != (rows, dim) or features.dtype != np.float32 or len(scales) != dim or not np.isfinite(scales).all():
            raise ValueError("features.npy and about.json do not fit")
        if ids is not None and len(ids) != rows:
            raise ValueError(f"{len(ids)} ids for {rows} items")
    except (KeyError, TypeError, ValueError, EOFError, OSError) as error:
        raise ValueError(f"{folder}: a damaged map ({' '.join(str(error).split())}); delete it and convert again") from error
    return Map(features, ids, scales)


def convert(dataset: Dataset, folder: Path, progress: Progress | None = None) -> None:
    """Make the map of a dataset, unless it exists already. Of several processes that try, one does it."""
    source = _source(dataset)
    if _made_of(folder, source):
        return
    part = folder.with_name(folder.name + ".part")
    for target in (folder, part):
        _only_ours(target)
    missing = [above for above in part.parents if not above.exists()]
    try:
        part.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{part}: cannot be made ({error.strerror}); say where the map should be") from error
    with _alone(part):
        try:
            if not _made_of(folder, source):  # another process may just have made it
                _Conversion(dataset, part, source, progress).run()
                _replace(part, folder)
        except OSError as error:
            _forget(part, missing)
            raise ValueError(f"{folder}: could not be written ({error.strerror or error}); nothing is left of it") from error
        except Exception:
            _forget(part, missing)
            raise
        shutil.rmtree(part, ignore_errors=True)


class _Done(NamedTuple):
    """A written row group: a line of the journal. Groups are in order."""

    start: int
    checksum: int  # of its features
    scales: list[float]
    letters: int  # where its ids end
    ids_checksum: int  # of their text, and of where they end


class _Conversion:
    """One run of a conversion, which may resume an earlier one."""

    def __init__(self, dataset: Dataset, part: Path, source: dict[str, Any], progress: Progress | None) -> None:
        self.dataset, self.part, self.source, self.progress = dataset, part, source, progress
        self.dim, self.rows, self.named = dataset.dim, dataset.rows, dataset.layout.ids_name
        self.head = npy_header((self.rows, self.dim), "<f4")
        self.ends_head = npy_header((self.rows + 1,), "<i8")
        self._counting = threading.Lock()
        self._rows_done = 0

    def run(self) -> None:
        """Write the missing row groups, then ``about.json``."""
        before = self._journal()
        with contextlib.ExitStack() as files:
            file = self._open(files, "features.npy", len(self.head) + self.rows * self.dim * 4)
            os.pwrite(file, self.head, 0)
            ids = self._open_ids(files)
            before = before[: self._intact(file, ids, before)]
            self._count(sum(group.rows for group in self.dataset.groups[: len(before)]))
            journal = files.enter_context(open(self.part / "done", "w", buffering=1))  # a line at a time
            journal.writelines(json.dumps(done) + "\n" for done in before)
            syncing = files.enter_context(ThreadPoolExecutor(1))
            synced: list[Future[None]] = []
            scales, letters = np.zeros(self.dim), before[-1].letters if before else 0
            for done in before:
                np.maximum(scales, done.scales, out=scales)
            for group, group_scales, checksum, names in self._written(file, self.dataset.groups[len(before) :]):
                np.maximum(scales, group_scales, out=scales)
                letters, ids_checksum = self._write_ids(ids, group.start, letters, names)
                journal.write(json.dumps(_Done(group.start, checksum, group_scales.tolist(), letters, ids_checksum)) + "\n")
                synced.append(syncing.submit(os.fsync, file))  # now, so that little is left to sync at the end
            for sync in synced:  # the system reports a failed write only once, here
                sync.result()
            if ids is not None:
                os.ftruncate(ids[0], letters)
            for number in (file, *(ids or ())):
                os.fsync(number)
        self._finish(scales)

    def _journal(self) -> list[_Done]:
        """The groups that an earlier run of the same conversion has written; empty if it converted other data."""
        source, journal = self.part / "source.json", self.part / "done"
        if not (source.is_file() and journal.is_file() and source.read_text() == json.dumps(self.source)):
            for stale in self.part.iterdir():
                stale.unlink()
            source.write_text(json.dumps(self.source))
            return []
        groups: list[_Done] = []
        with contextlib.suppress(ValueError, TypeError):  # the last line may be incomplete
            for line in journal.read_bytes().splitlines():
                groups.append(_Done(*json.loads(line)))
        return groups

    def _intact(self, file: int, ids: tuple[int, int] | None, before: list[_Done]) -> int:
        """The number of groups, from the first on, whose checksums still match."""
        letters = 0
        for number, (group, done) in enumerate(zip(self.dataset.groups, before, strict=False)):
            checksum = _checksum(file, self._at(group.start), group.rows * self.dim * 4)
            names = 0
            if ids is not None:
                names = _checksum(ids[0], letters, done.letters - letters)
                names = _checksum(ids[1], self._end_at(group.start), group.rows * 8, names)
            if (group.start, checksum, names) != (done.start, done.checksum, done.ids_checksum):
                return number
            letters = done.letters
        return len(before)

    def _open(self, files: contextlib.ExitStack, name: str, size: int) -> int:
        """A file with all its space allocated at once, so that a full disk is noticed before the work is done."""
        file = os.open(self.part / name, os.O_RDWR | os.O_CREAT, 0o644)
        files.callback(os.close, file)
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        if size:
            os.ftruncate(file, size)
        return file

    def _open_ids(self, files: contextlib.ExitStack) -> tuple[int, int] | None:
        """The files of the ids' text and of their end offsets."""
        if self.named is None:
            return None
        text, ends = self._open(files, "ids", 0), self._open(files, "ids.npy", len(self.ends_head) + (self.rows + 1) * 8)
        os.pwrite(ends, self.ends_head + bytes(8), 0)
        return text, ends

    def _write_ids(self, files: tuple[int, int] | None, start: int, end: int, names: list[Any]) -> tuple[int, int]:
        """Write a group's ids after the others, which end at ``end``; return the new end, and a checksum."""
        if files is None:
            return 0, 0
        begin, at = end, self._end_at(start)
        for column in names:
            starts, written = _letters(column)
            _write_all(files[0], written, end)
            ends = starts[1:] - starts[0] + end
            _write_all(files[1], memoryview(ends).cast("B"), at)
            end, at = int(ends[-1]), at + ends.nbytes
        first = self._end_at(start)
        return end, _checksum(files[1], first, at - first, _checksum(files[0], begin, end - begin))

    def _written(self, file: int, groups: list[Group]) -> Iterator[tuple[Group, Floats, int, list[Any]]]:
        """Every group in order, once it is written; up to two per processor are read ahead."""
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
        """Read one group and write its features; return its scales, a checksum and its ids."""
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
        """Run the checks that need all rows (ids, scales), and write ``about.json``."""
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
            raise ValueError(f"{name}: every feature of every item is zero; give at least one that is not")
        about = {"format": FORMAT, "rows": self.rows, "dim": self.dim, "ids": self.named, "scales": scales.tolist()}
        for leftover in ("source.json", "done"):
            (self.part / leftover).unlink()
        with open(self.part / "about.json", "w") as file:
            file.write(json.dumps({**about, "source": self.source}, indent=1))
            file.flush()
            os.fsync(file.fileno())

    def _at(self, row: int) -> int:
        return len(self.head) + row * self.dim * 4

    def _end_at(self, row: int) -> int:
        return len(self.ends_head) + (row + 1) * 8


def _letters(column: Any) -> tuple[NDArray[np.int64], memoryview]:
    """The offset of each of pyarrow's strings, and their text."""
    _, offsets, letters = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return starts, memoryview(letters or b"").cast("B")[starts[0] : starts[-1]]


def _checksum(file: int, at: int, length: int, before: int = 0) -> int:
    """Checksum of a part of a file, continuing an earlier one; a shorter file ends it early."""
    while length > 0:
        data = os.pread(file, min(length, 1 << 24), at)
        if not data:
            break
        before, at, length = zlib.crc32(data, before), at + len(data), length - len(data)
    return before


def _write_all(file: int, data: memoryview, at: int) -> None:
    while len(data):
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written


def npy_header(shape: tuple[int, ...], kind: str) -> bytes:
    """The header of a .npy file."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": shape})
    return head.getvalue()


def _source(dataset: Dataset) -> dict[str, Any]:
    """The files and columns that a map depends on."""
    layout = dataset.layout
    return {
        "files": [list(file) for file in dataset.sources()],
        "features": [column.name for column in layout.features],
        "ids": layout.ids_name,
    }


def _about(folder: Path) -> dict[str, Any] | None:
    try:
        about = json.loads((folder / "about.json").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(about, dict):
        return None
    if about.get("format") != FORMAT:
        raise ValueError(f"{folder}: a map of format {about.get('format')!r}; this version knows {FORMAT}; delete it")
    return about


def _made_of(folder: Path, source: dict[str, Any]) -> bool:
    about = _about(folder)
    return about is not None and about.get("source") == source


def _only_ours(folder: Path) -> None:
    """ValueError unless the folder holds a map or part of one: nothing else is ever replaced."""
    if folder.is_dir():
        other = next((path.name for path in folder.iterdir() if path.name not in OURS), None)
        if other is not None:
            raise ValueError(f"{folder}: holds other things than a map ({other}); give another folder for the map")
    elif folder.exists() or folder.is_symlink():
        raise ValueError(f"{folder}: is not a folder; give another folder for the map")


def _forget(part: Path, made: list[Path]) -> None:
    """Remove the unfinished map, and the folders that were made for it."""
    shutil.rmtree(part, ignore_errors=True)
    for above in made:
        with contextlib.suppress(OSError):
            above.rmdir()


def _replace(part: Path, folder: Path) -> None:
    """Rename the finished map, in place of one of older data, and sync it to disk."""
    old = part.with_name(f"{part.name}.{os.getpid()}")
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    for changed in (folder, folder.parent):
        with contextlib.suppress(OSError):  # not every system supports it
            number = os.open(changed, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


@contextlib.contextmanager
def _alone(part: Path) -> Iterator[None]:
    """Let one process at a time write beside a dataset; the others wait."""
    try:
        import fcntl
    except ImportError:  # Windows: there the second one fails to replace what the first has open
        yield
        return
    folder = os.open(part.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        part.mkdir(exist_ok=True)  # an earlier holder of the lock may have removed it
        yield
    finally:
        os.close(folder)

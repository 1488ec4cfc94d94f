"""The archive: events that the log does not have any more, in Parquet files, one per ranker and day.

``manifest.json`` lists the files in the order in which they were added, a *step* at a time. A step has all events from one to
another, the digests of the chain (``chain.py``) before and after them, and of every file its SHA-256; so the chain can be
followed from the first event on. A file that is not in the manifest is not part of the archive.

The archive is a folder, or any address that fsspec knows (``s3://bucket/folder``).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import heapq
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from recurrank.serving import chain

MANIFEST = "manifest.json"
FORMAT = 1
ROWS = 100_000
"""Events that wait in memory before they are written."""
BATCH = 10_000
"""Events read at a time from one file."""
_WRITING = ".writing-"
"""How the folder of files that are being written begins."""
COLUMNS = ("seq", "ranker", "kind", "served", "clicks", "payload", "at", "link")

Raw = tuple[Any, ...]
"""An event as it is stored: the fields of :data:`COLUMNS`."""


class File(msgspec.Struct, frozen=True):
    """Events of one ranker on one day (UTC)."""

    path: str
    ranker: int
    day: str
    rows: int
    sha256: str


class Step(msgspec.Struct, frozen=True):
    """All events from ``first`` to ``last``; digests of the chain before and after them, in hexadecimal."""

    first: int
    last: int
    before: str
    digest: str
    files: list[File]


class Manifest(msgspec.Struct, frozen=True):
    """What is in the archive."""

    format: int = FORMAT
    steps: list[Step] = []

    @property
    def last(self) -> int:
        """The last event in the archive."""
        return self.steps[-1].last if self.steps else 0


class Archive:
    """Events in files.

    Args:
        address: a folder, or an address that fsspec knows.

    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._remote: Any = None
        self._root = address
        if "://" in address:
            try:
                import fsspec  # type: ignore[import-untyped]
            except ImportError as error:
                raise ValueError(f"archive: {address} needs fsspec; install it, or give a folder") from error
            try:
                self._remote, self._root = fsspec.core.url_to_fs(address)
            except (ValueError, ImportError) as error:
                raise ValueError(f"archive: {address} cannot be used ({error})") from error
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ValueError("archive: Parquet needs pyarrow; install recurrank[parquet]") from error

    # ------------------------------------------------------------------------------------------------ files

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[Any]:
        path = self._path(name)
        with self._remote.open(path, "rb") if self._remote is not None else open(path, "rb") as file:
            yield file

    def _put(self, file: Path, name: str) -> None:
        """Move a file into the archive, whole and durably."""
        path = self._path(name)
        parent = path.rpartition("/")[0]
        if self._remote is not None:
            self._remote.makedirs(parent, exist_ok=True)
            self._remote.put_file(str(file), path)
            return
        Path(parent).mkdir(parents=True, exist_ok=True)
        with open(file, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(file, path)
        _sync_folder(parent)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._remote is not None:
                self._remote.rm_file(self._path(name))
            else:
                os.unlink(self._path(name))

    @contextlib.contextmanager
    def _workshop(self) -> Iterator[Path]:
        """A folder for files that are being written, on the same disk where that is possible."""
        if self._remote is None:
            Path(self._root).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_WRITING, dir=None if self._remote is not None else self._root) as folder:
            yield Path(folder)

    # ------------------------------------------------------------------------------------------------ the manifest

    def manifest(self) -> Manifest:
        """What is in the archive; ValueError for a manifest that is altered, or of a newer version."""
        try:
            with self._open(MANIFEST) as file:
                whole = file.read()
        except FileNotFoundError:
            return Manifest()
        try:
            seal, _, body = whole.partition(b"\n")
            if hashlib.sha256(body).hexdigest() != json.loads(seal)["sha256"]:
                raise ValueError("it was altered")
            found = msgspec.json.decode(body, type=Manifest)
        except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
            raise ValueError(f"archive: {self.address}: its manifest cannot be read ({error})") from error
        if found.format > FORMAT:
            raise ValueError(f"archive: {self.address} is of a newer version ({found.format}, known here: {FORMAT})")
        return found

    def check_writable(self) -> None:
        """ValueError where no file can be made in the folder, or in the one in which it would be made. Nothing stays there."""
        if self._remote is not None:
            return
        folder = Path(self._root).absolute()
        try:
            there = next(path for path in (folder, *folder.parents) if path.exists())
            with tempfile.TemporaryDirectory(prefix=_WRITING, dir=there):
                pass
        except OSError as error:
            raise ValueError(f"archive: {self.address} cannot be written ({error.strerror})") from error

    def check(self, seq: int, digest: bytes) -> Manifest:
        """What is in the archive of a log that begins after an event; ValueError where it is not one of this log."""
        manifest = self.manifest()
        if manifest.last < seq:
            raise ValueError(f"archive: {self.address} ends with event {manifest.last}, the log begins after {seq}")
        if any(step.last == seq and step.digest != digest.hex() for step in manifest.steps):
            raise ValueError(f"archive: {self.address} is not one of this log")
        return manifest

    def _write_manifest(self, manifest: Manifest, folder: Path) -> None:
        body = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        (folder / MANIFEST).write_bytes(json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n" + body)
        self._put(folder / MANIFEST, MANIFEST)

    # ------------------------------------------------------------------------------------------------ writing

    def add(self, before: bytes, events: Iterable[Raw]) -> Step | None:
        """Add events that follow those of the archive, after the event whose digest is ``before``; None for no events.

        The step counts once the manifest has it, which is written last.
        """
        manifest = self.manifest()
        self._tidy(manifest)
        with self._workshop() as folder:
            writer = _Writer(folder)
            for event in events:
                writer.add(event)
            if writer.last == 0:
                return None
            files = writer.finish()
            for file in files:
                self._put(folder / file.path.replace("/", "-"), file.path)
            step = Step(writer.first, writer.last, before.hex(), writer.digest.hex(), files)
            self._write_manifest(Manifest(FORMAT, [*manifest.steps, step]), folder)
        return step

    def replace(self, change: Callable[[Raw], Raw]) -> int:
        """Rewrite the files with events that ``change`` changes, and forget the others; how many events were changed.

        A new file and the manifest are written before an old file goes.
        """
        manifest, total = self.manifest(), 0
        for place, step in enumerate(manifest.steps):
            files = []
            for file in step.files:
                rows = list(map(change, before := list(self._rows(file))))
                changed = sum(new != old for new, old in zip(rows, before, strict=True))
                files.append(self._rewritten(file, rows) if changed else file)
                total += changed
            if files != step.files:
                manifest.steps[place] = msgspec.structs.replace(step, files=files)
        if total:
            with self._workshop() as folder:
                self._write_manifest(manifest, folder)
        self._tidy(manifest)
        return total

    def _rewritten(self, file: File, rows: list[Raw]) -> File:
        """A file with other rows under another name."""
        stem, _, number = file.path.removesuffix(".parquet").partition("~")
        path = f"{stem}~{int(number or 0) + 1}.parquet"
        with self._workshop() as folder:
            writer = _Writer(folder)
            for row in rows:
                writer.add(row)
            [made] = writer.finish()
            self._put(folder / made.path.replace("/", "-"), path)
        return File(path, file.ranker, file.day, file.rows, made.sha256)

    def _tidy(self, manifest: Manifest) -> None:
        """Remove files that are not in the manifest: whoever wrote them was killed."""
        known = {file.path for step in manifest.steps for file in step.files} | {MANIFEST}
        for name in self._names():
            if name not in known:
                self._remove(name)
        if self._remote is None:
            for folder in Path(self._root).glob(f"{_WRITING}*"):
                shutil.rmtree(folder, ignore_errors=True)

    def _names(self) -> list[str]:
        """All files of the archive, whether they are in the manifest or not."""
        if self._remote is None:
            found = [str(path) for path in Path(self._root).rglob("*") if path.is_file()]
        else:
            found = self._remote.find(self._root) if self._remote.exists(self._root) else []
        return [path.removeprefix(self._root.rstrip("/") + "/") for path in found]

    # ------------------------------------------------------------------------------------------------ reading

    def events(self, until: int, ranker: int | None = None) -> Iterator[Raw]:
        """The events up to one, or a ranker's part of them, in order; ValueError for what is missing or altered."""
        last = 0
        for step in self.manifest().steps:
            if step.first != last + 1:
                raise ValueError(f"archive: {self.address}: events {last + 1} to {step.first - 1} are missing")
            if step.first > until:
                break
            files = [file for file in step.files if ranker is None or file.ranker == ranker]
            yield from heapq.merge(*(self._rows(file) for file in files), key=lambda row: row[0])
            last = step.last
        if last < until:
            raise ValueError(f"archive: {self.address}: events {last + 1} to {until} are missing")

    def _rows(self, file: File) -> Iterator[Raw]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with self._open(file.path) as opened:
                if hashlib.file_digest(opened, "sha256").hexdigest() != file.sha256:
                    raise ValueError(f"archive: {file.path} was altered: its digest is not that of the manifest")
                opened.seek(0)
                for batch in pq.ParquetFile(opened).iter_batches(BATCH, columns=list(COLUMNS)):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
        except FileNotFoundError as error:
            raise ValueError(f"archive: {file.path} is missing") from error
        except pa.ArrowInvalid as error:
            raise ValueError(f"archive: {file.path} cannot be read ({error})") from error


class _Writer:
    """Sorts events into files of one ranker and day."""

    def __init__(self, folder: Path) -> None:
        import pyarrow as pa

        types = (pa.int64(), pa.int64(), pa.int16(), pa.int64(), pa.binary(), pa.binary(), pa.float64(), pa.binary())
        self._schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
        self._folder = folder
        self._waiting: dict[tuple[int, str], list[Raw]] = {}
        self._count = 0
        self._writers: dict[tuple[int, str], Any] = {}
        self._rows: dict[tuple[int, str], int] = {}
        self.first = self.last = 0
        self.digest = chain.START

    def add(self, event: Raw) -> None:
        self.first, self.last = self.first or event[0], event[0]
        link = event[-1]
        if link is not None:
            self.digest = link[: chain.SIZE]
        self._waiting.setdefault((event[1], day_of(event[6])), []).append(event)
        self._count += 1
        if self._count == ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for key, rows in self._waiting.items():
            if key not in self._writers:
                self._writers[key] = pq.ParquetWriter(self._folder / self._temporary(key), self._schema, compression="zstd")
            table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=self._schema)
            self._writers[key].write_table(table)
            self._rows[key] = self._rows.get(key, 0) + len(rows)
        self._waiting, self._count = {}, 0

    def _temporary(self, key: tuple[int, str]) -> str:
        return f"ranker-{key[0]}-{key[1]}"

    def finish(self) -> list[File]:
        """The files, named for what they have, in the folder where they were written."""
        self._flush()
        files = []
        for (ranker, day), writer in self._writers.items():
            writer.close()
            path = f"ranker-{ranker}/{day}.{self.first}-{self.last}.parquet"
            written = self._folder / self._temporary((ranker, day))
            with open(written, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            written.rename(self._folder / path.replace("/", "-"))
            files.append(File(path, ranker, day, self._rows[(ranker, day)], digest))
        return files


def day_of(at: float) -> str:
    """The day of a time, in UTC."""
    return _named(at // 86_400)


@functools.lru_cache(1000)
def _named(day: float) -> str:
    """A day by its number: the same again and again, and slow to write down."""
    return datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()


def _sync_folder(folder: str) -> None:
    """So that a name that was given survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

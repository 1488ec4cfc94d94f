"""The archive: events that have left the log, in Parquet files, one per step, ranker and day.

``manifest.json`` lists the files in the order in which they were added, one *step* at a time. A step has all events from one to
another, the digests of the chain (``chain.py``) before and after them, and the SHA-256 of every file; so the chain can be
followed from the first event on. A file that is not in the manifest is not part of the archive: it is removed if its name shows
that recurrank created it, and otherwise left alone.

The archive is a folder, or any address that fsspec knows (``s3://bucket/folder``).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import heapq
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from recurrank.serving import chain
from recurrank.serving.archive_files import address_of, open_files

MANIFEST, PREVIOUS = "manifest.json", "manifest.previous.json"
"""The second, the previous version, is only kept where replacing is not atomic: one of the two is always valid."""
FORMAT = 1
ROWS = 100_000
"""Events buffered in memory before they are written."""
BATCH = 10_000
"""Events read at a time from one file."""
_MADE = re.compile(r"ranker-\d+/\d{4}-\d\d-\d\d\.\d+-\d+(~\d+)?\.parquet|\.writing-[0-9a-z_-]+")
"""Names of files that recurrank creates; no others are ever removed."""
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
    """The contents of an archive."""

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
        self.address = address_of(address)
        self._files = open_files(self.address)
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ValueError("archive: Parquet needs pyarrow; install recurrank[parquet]") from error

    # ------------------------------------------------------------------------------------------------ the manifest

    def manifest(self) -> Manifest:
        """The contents of the archive; ValueError if the manifest was altered, or is of a newer version."""
        return self._manifest() or Manifest()

    def _manifest(self) -> Manifest | None:
        """:meth:`manifest`; None if there is none, so that existing files do not belong to an archive."""
        try:
            found = self._load(MANIFEST) or self._load(PREVIOUS)
        except ValueError:
            if (found := self._load(PREVIOUS)) is None:
                raise
        if found is not None and found.format > FORMAT:
            raise ValueError(f"archive: {self.address} is of a newer version ({found.format}, known here: {FORMAT})")
        return found

    def _load(self, name: str) -> Manifest | None:
        whole = self._read(name)
        try:
            return None if whole is None else _unsealed(whole)
        except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
            raise ValueError(f"archive: {self.address}: its manifest cannot be read ({error})") from error

    def _read(self, name: str) -> bytes | None:
        try:
            with self._files.open(name) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    @property
    def there(self) -> bool:
        """Whether the archive exists."""
        return self._manifest() is not None

    def check_there(self) -> None:
        """Raise ValueError if the archive does not exist."""
        if not self.there:
            raise ValueError(f"archive: {self.address} has no {MANIFEST}, so it is not an archive; give that of this log")

    def check_usable(self) -> None:
        """Raise ValueError if nothing can be written, or if existing files do not belong to an archive."""
        if not self.there:
            self._check_empty()
        try:
            self._files.check_writable()
        except (OSError, ValueError) as error:
            raise ValueError(f"archive: {self.address} cannot be written ({_why(error)})") from error

    def _check_empty(self) -> None:
        name = next(self._files.names(), None)
        if name is not None:
            raise ValueError(
                f"archive: {self.address} has files ({name}) and no {MANIFEST}, so it is not an archive; give "
                "a new or an empty folder"
            )

    def _begun(self) -> Manifest:
        """The contents of the archive before an addition. An empty folder gets a manifest, which marks it as an archive."""
        manifest = self._manifest()
        if manifest is None:
            self._check_empty()
            manifest = Manifest()
            with self._files.workshop() as folder:
                self._write_manifest(manifest, folder)
        self._tidy(manifest)
        return manifest

    def check(self, seq: int, digest: bytes) -> Manifest:
        """The contents of the archive of a log that begins after event ``seq``; ValueError for another log's archive."""
        manifest = self.manifest()
        if manifest.last < seq:
            raise ValueError(
                f"archive: {self.address} ends with event {manifest.last}, the log begins after {seq}; "
                "give --archive where the log's is"
            )
        if seq and self._digest(manifest, seq) != digest.hex():
            raise ValueError(f"archive: {self.address} is not one of this log, or has gone on without it since event {seq}")
        return manifest

    def _digest(self, manifest: Manifest, seq: int) -> str | None:
        """The digest after event ``seq``, if a step ends with it and the steps are chained; otherwise None."""
        last, digest = 0, chain.START.hex()
        for step in manifest.steps:
            if step.first != last + 1:
                raise ValueError(f"archive: {self.address}: events {last + 1} to {step.first - 1} are missing")
            if step.before != digest or step.last > seq:
                return None
            last, digest = step.last, step.digest
            if last == seq:
                return digest
        return None

    def _write_manifest(self, manifest: Manifest, folder: Path) -> None:
        if not self._files.atomic:
            with contextlib.suppress(ValueError):  # it is torn: keep the previous one
                if (before := self._load(MANIFEST)) is not None:
                    self._put_manifest(before, folder, PREVIOUS)
        self._put_manifest(manifest, folder, MANIFEST)

    def _put_manifest(self, manifest: Manifest, folder: Path, name: str) -> None:
        body = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        (folder / MANIFEST).write_bytes(json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n" + body)
        self._files.put(folder / MANIFEST, name)

    # ------------------------------------------------------------------------------------------------ writing

    def add(self, before: bytes, events: Iterable[Raw]) -> Step | None:
        """Add events after those of the archive, where ``before`` is the digest of its last event; None if there are no events.

        The step is valid once the manifest has it, which is written last.
        """
        manifest = self._begun()
        with self._files.workshop() as folder:
            writer = _Writer(folder)
            for event in events:
                writer.add(event)
            if writer.last == 0:
                return None
            files = writer.finish()
            for file in files:
                self._files.put(folder / file.path.replace("/", "-"), file.path)
            step = Step(writer.first, writer.last, before.hex(), writer.digest.hex(), files)
            self._write_manifest(Manifest(FORMAT, [*manifest.steps, step]), folder)
        return step

    def begin(self, old: Archive, seq: int, digest: bytes) -> None:
        """Copy the steps of another archive up to event ``seq``; they are valid once all are copied."""
        steps = [step for step in old.check(seq, digest).steps if step.last <= seq]
        self._begun()
        with self._files.workshop() as folder:
            for file in (file for step in steps for file in step.files):
                with old._opened(file) as source, open(folder / "copied", "wb") as target:
                    shutil.copyfileobj(source, target)
                self._files.put(folder / "copied", file.path)
            self._write_manifest(Manifest(FORMAT, steps), folder)

    def replace(self, change: Callable[[Raw], Raw]) -> int:
        """Rewrite the files with events that ``change`` changes; returns the number of changed events.

        New files and the manifest are written before the old files are removed. ValueError if there is no manifest.
        """
        self.check_there()
        manifest, total = self.manifest(), 0
        for i, step in enumerate(manifest.steps):
            files = []
            for file in step.files:
                rows = list(map(change, before := list(self._rows(file))))
                changed = sum(new != old for new, old in zip(rows, before, strict=True))
                files.append(self._rewritten(file, rows) if changed else file)
                total += changed
            if files != step.files:
                manifest.steps[i] = msgspec.structs.replace(step, files=files)
        if total:
            with self._files.workshop() as folder:
                self._write_manifest(manifest, folder)
        self._tidy(manifest)
        return total

    def _rewritten(self, file: File, rows: list[Raw]) -> File:
        """Write a new version of a file, under another name."""
        stem, _, number = file.path.removesuffix(".parquet").partition("~")
        path = f"{stem}~{int(number or 0) + 1}.parquet"
        with self._files.workshop() as folder:
            writer = _Writer(folder)
            for row in rows:
                writer.add(row)
            [made] = writer.finish()
            self._files.put(folder / made.path.replace("/", "-"), path)
        return File(path, file.ranker, file.day, file.rows, made.sha256)

    def _tidy(self, manifest: Manifest) -> None:
        """Remove leftovers of killed processes: files with the archive's kind of names that the manifest does not have."""
        known = {file.path for step in manifest.steps for file in step.files}
        for name in list(self._files.names()):
            if _MADE.fullmatch(name) and name not in known:
                self._files.remove(name)
        self._files.clear()

    # ------------------------------------------------------------------------------------------------ reading

    def events(self, until: int, ranker: int | None = None) -> Iterator[Raw]:
        """The events up to ``until``, or those of a ranker, in order; ValueError for missing or altered ones."""
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
            with self._opened(file) as opened:
                for batch in pq.ParquetFile(opened).iter_batches(BATCH, columns=list(COLUMNS)):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"archive: {file.path} cannot be read ({error})") from error

    @contextlib.contextmanager
    def _opened(self, file: File) -> Iterator[Any]:
        """Open a file for reading; ValueError if it is missing or altered."""
        try:
            with self._files.open(file.path) as opened:
                if hashlib.file_digest(opened, "sha256").hexdigest() != file.sha256:
                    raise ValueError(f"archive: {file.path} was altered: its digest is not that of the manifest")
                opened.seek(0)
                yield opened
        except FileNotFoundError as error:
            raise ValueError(f"archive: {file.path} is missing") from error


class _Writer:
    """Sorts events into one file per ranker and day."""

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
        """Close the files and give them their final names in the folder; returns them."""
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
    """A day by its number; cached, since formatting is slow."""
    return datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()


def _unsealed(whole: bytes) -> Manifest:
    """A manifest from its file."""
    seal, _, body = whole.partition(b"\n")
    if hashlib.sha256(body).hexdigest() != json.loads(seal)["sha256"]:
        raise ValueError("it was altered")
    return msgspec.json.decode(body, type=Manifest)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__

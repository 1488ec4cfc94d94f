"""The files of an archive: in a folder, or at an address that fsspec knows. Both classes have the same methods.

Files are named by their paths in the archive. They are written in a *workshop*, a folder on this machine; ``clear`` removes
the workshops of processes that were killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from recurrank.serving.files import move_durably

_WRITING = ".writing-"
"""Prefix of the names of workshops."""
_LOCAL = re.compile(r"(file|local)://")
_MEMORY = re.compile(r"(^|::)memory://")


def address_of(archive: str) -> str:
    """An archive's address in its canonical form, independent of the working directory; ValueError for an invalid one."""
    if not archive:
        raise ValueError("archive: it is empty; give a folder, or an address such as s3://bucket/folder")
    if _MEMORY.search(archive):
        raise ValueError(f"archive: {archive} ends with the process that writes it; give a folder, or an address of a store")
    path = _LOCAL.sub("", archive, count=1) if _LOCAL.match(archive) else archive
    return archive.rstrip("/") if "://" in path else str(Path(path).resolve())


def open_files(address: str) -> Folder | Remote:
    """The files at an address from :func:`address_of`."""
    return Remote(address) if "://" in address else Folder(address)


class Folder:
    """Files in a folder."""

    atomic = True
    """Whether replacing a file is atomic."""

    def __init__(self, address: str) -> None:
        self._root = Path(address)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """Open a file for reading; FileNotFoundError if there is none."""
        with open(self._root / name, "rb") as file:
            yield file

    def put(self, file: Path, name: str) -> None:
        """Move a file into the archive, durably."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        move_durably(file, path)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        (self._root / name).unlink(missing_ok=True)

    def names(self) -> Iterator[str]:
        """Names of all files except those in workshops, whoever created them."""
        for path in self._root.rglob("*"):
            name = path.relative_to(self._root)
            if not name.parts[0].startswith(_WRITING) and not path.is_dir():
                yield name.as_posix()

    @contextlib.contextmanager
    def workshop(self) -> Iterator[Path]:
        """A folder for files that are being written, on the same disk."""
        self._root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_WRITING, dir=self._root) as folder:
            yield Path(folder)

    def clear(self) -> None:
        """Remove workshops of processes that were killed."""
        for folder in self._root.glob(f"{_WRITING}*"):
            shutil.rmtree(folder, ignore_errors=True)

    def check_writable(self) -> None:
        """Raise OSError if no file can be created in the folder, or in the one that would contain it. Leaves nothing behind."""
        existing = next(path for path in (self._root, *self._root.parents) if path.exists())
        with tempfile.TemporaryDirectory(prefix=_WRITING, dir=existing):
            pass


class Remote:
    """Files behind fsspec."""

    atomic = False

    def __init__(self, address: str) -> None:
        self._address = address
        try:
            import fsspec  # type: ignore[import-untyped]
        except ImportError as error:
            raise ValueError(f"archive: {address} needs fsspec; install it, or give a folder") from error
        try:
            self._system, root = fsspec.core.url_to_fs(address)
        except (ValueError, ImportError) as error:
            raise ValueError(f"archive: {address} cannot be used ({error})") from error
        self._root = PurePosixPath(root)
        # Equal for all processes that write to this archive, so that one can clear what another left.
        self._prefix = f"{_WRITING}{hashlib.sha256(address.encode()).hexdigest()[:16]}-"

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        """Turn a service's own kinds of errors into OSError."""
        try:
            yield
        except (ValueError, OSError):
            raise
        except Exception as error:
            raise OSError(f"archive: {self._address} cannot be used ({type(error).__name__}: {error})") from error

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """Open a file for reading; FileNotFoundError if there is none."""
        with self._reaching(), self._system.open(str(self._root / name), "rb") as file:
            yield file

    def put(self, file: Path, name: str) -> None:
        """Copy a file into the archive. If the process is killed meanwhile, a part of the file may remain."""
        path = self._root / name
        with self._reaching():
            self._system.makedirs(str(path.parent), exist_ok=True)
            self._system.put_file(str(file), str(path))

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with self._reaching(), contextlib.suppress(FileNotFoundError):
            self._system.rm_file(str(self._root / name))

    def names(self) -> Iterator[str]:
        """Names of all files, whoever created them."""
        with self._reaching():
            self._system.invalidate_cache()  # another process may have written since
            found = self._system.find(str(self._root)) if self._system.exists(str(self._root)) else []
        yield from (PurePosixPath(path).relative_to(self._root).as_posix() for path in found)

    @contextlib.contextmanager
    def workshop(self) -> Iterator[Path]:
        """A folder of this machine for files that are being written."""
        with tempfile.TemporaryDirectory(prefix=self._prefix) as folder:
            yield Path(folder)

    def clear(self) -> None:
        """Remove workshops of processes that were killed on this machine."""
        for folder in Path(tempfile.gettempdir()).glob(f"{self._prefix}*"):
            shutil.rmtree(folder, ignore_errors=True)

    def check_writable(self) -> None:
        """Raise OSError if no file can be created there. Leaves nothing behind."""
        with self.workshop() as folder:
            (folder / "empty").touch()
            self.put(folder / "empty", folder.name)
        self.remove(folder.name)

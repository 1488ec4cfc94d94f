"""Where the files of an archive are: in a folder, or at an address that fsspec knows. Both kinds have the same methods.

Files are named by their paths in the archive. Those that are being written are in a *workshop*, a folder on this machine; what
a process that was killed left in one is removed by ``clear``.
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
"""How names begin of what is being written."""
_LOCAL = re.compile(r"(file|local)://")
_MEMORY = re.compile(r"(^|::)memory://")


def address_of(archive: str) -> str:
    """An archive's address, the same wherever a command runs and however it is spelled; ValueError for what is not one."""
    if not archive:
        raise ValueError("archive: it is empty; give a folder, or an address such as s3://bucket/folder")
    if _MEMORY.search(archive):
        raise ValueError(f"archive: {archive} ends with the process that writes it; give a folder, or an address of a store")
    path = _LOCAL.sub("", archive, count=1) if _LOCAL.match(archive) else archive
    return archive.rstrip("/") if "://" in path else str(Path(path).resolve())


def open_files(address: str) -> Folder | Remote:
    """The files at what :func:`address_of` gave."""
    return Remote(address) if "://" in address else Folder(address)


class Folder:
    """Files in a folder."""

    atomic = True
    """Whether a file is replaced whole or not at all."""

    def __init__(self, address: str) -> None:
        self._root = Path(address)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """A file to be read; FileNotFoundError where there is none."""
        with open(self._root / name, "rb") as file:
            yield file

    def put(self, file: Path, name: str) -> None:
        """Move a file into the archive, durably."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        move_durably(file, path)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self._root / name).unlink(missing_ok=True)

    def names(self) -> Iterator[str]:
        """All files, whoever made them, but for those that are being written."""
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
        """OSError where no file can be made in the folder, or in the one in which it would be made. Nothing stays there."""
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
        # Equal for all who write to this archive: what one of them left, the next one finds.
        self._prefix = f"{_WRITING}{hashlib.sha256(address.encode()).hexdigest()[:16]}-"

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        """Services have errors of their own kinds."""
        try:
            yield
        except (ValueError, OSError):
            raise
        except Exception as error:
            raise OSError(f"archive: {self._address} cannot be used ({type(error).__name__}: {error})") from error

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """A file to be read; FileNotFoundError where there is none."""
        with self._reaching(), self._system.open(str(self._root / name), "rb") as file:
            yield file

    def put(self, file: Path, name: str) -> None:
        """Copy a file into the archive. Killed meanwhile, a part of it may be there."""
        path = self._root / name
        with self._reaching():
            self._system.makedirs(str(path.parent), exist_ok=True)
            self._system.put_file(str(file), str(path))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._reaching(), contextlib.suppress(FileNotFoundError):
            self._system.rm_file(str(self._root / name))

    def names(self) -> Iterator[str]:
        """All files, whoever made them."""
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
        """OSError where no file can be made there. Nothing stays there."""
        with self.workshop() as folder:
            (folder / "empty").touch()
            self.put(folder / "empty", folder.name)
        self.remove(folder.name)

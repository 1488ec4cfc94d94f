"""The file of a SQLite store and its companions: their paths, whether they may be created, and their owner."""

from __future__ import annotations

import os
import stat
from pathlib import Path

SCHEME = "sqlite:///"
"""Prefix of the address of such a store."""


def path_of(address: str) -> Path:
    """The file of a store's address."""
    return linked(Path(address.removeprefix(SCHEME)))


def linked(path: Path) -> Path:
    """The file that a symbolic link leads to, where SQLite has its journal: the lock and the keys must be beside it, too."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def check_path(path: Path) -> None:
    """Raise ValueError if no store can be opened or created at this path."""
    if not path.absolute().parent.is_dir():
        raise ValueError(f"store: the folder of {path} does not exist; make it first")
    if path.is_dir():
        raise ValueError(f"store: {path} is a folder; give a file, as sqlite:///recurrank.db")
    if path.exists() and path.stat().st_nlink > 1:
        raise ValueError(
            f"store: {path} has another name (a hard link), with other keys and another lock; remove that name, or use a copy"
        )


def named(path: Path, end: str) -> Path:
    """The path with ``end`` appended to the name."""
    return path.with_name(path.name + end)


def partial_of(path: Path) -> Path:
    """The name of a file while it is being written. It is left behind if the process is killed."""
    return named(path, ".partial")


def keys_of(path: Path) -> Path:
    """The file of a store's keys."""
    return named(path, ".keys")


def events_of(path: Path) -> Path:
    """The file of events from which an export of another format is made."""
    return named(path, ".events.parquet")


def unfinished(export: Path) -> list[Path]:
    """Files that a killed export may leave behind."""
    return [partial_of(export), events_of(export), partial_of(events_of(export))]


def remove_partial(path: Path) -> None:
    """Remove an unfinished copy of a store, SQLite's own files first: a new copy must not get the journal of an old one."""
    for end in ("-journal", "-wal", "-shm", ".keys", ""):
        named(partial_of(path), end).unlink(missing_ok=True)


def check_free(path: Path, source: Path, mend: str) -> None:
    """Raise ValueError if the copy of a store, or its keys, would overwrite existing files.

    If the partial file exists, keys equal to the source's are left over from a killed copy, and are removed.
    """
    left, keys = keys_of(path), keys_of(source)
    if partial_of(path).exists() and left.is_file() and keys.is_file() and left.read_bytes() == keys.read_bytes():
        left.unlink()
    for taken in (path, keys_of(path), named(path, "-wal")):
        if taken.exists():
            raise ValueError(f"{taken}: it is there already; {mend}")


def move_durably(file: Path, to: Path) -> None:
    """Move a file to its final name, replacing any other; its content and its name survive a power cut."""
    with open(file, "rb+") as written:
        os.fsync(written.fileno())
    os.replace(file, to)
    if os.name == "posix":
        descriptor = os.open(to.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def give_to_owner(path: Path, *like: Path) -> None:
    """Give a file that root created to the owner of the first of these files that exists.

    A server often runs under another account, and could not read a file that an administrator's command created.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return
    owner = next((one.stat() for one in like if one.exists()), None)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        # The server can write to the folder: a link planted there must not give it a file of root's.
        if owner is not None and stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    finally:
        os.close(descriptor)

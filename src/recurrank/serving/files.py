"""The file of a SQLite store and those beside it: where they are, whether they may be there, and whose they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

SCHEME = "sqlite:///"
"""How the address of such a store begins."""


def path_of(address: str) -> Path:
    """The file of a store's address."""
    return Path(address.removeprefix(SCHEME))


def check_path(path: Path) -> None:
    """ValueError where no store can be."""
    if not path.absolute().parent.is_dir():
        raise ValueError(f"store: the folder of {path} does not exist; make it first")
    if path.is_dir():
        raise ValueError(f"store: {path} is a folder; give a file, as sqlite:///recurrank.db")


def named(path: Path, end: str) -> Path:
    """The file beside another whose name goes on so."""
    return path.with_name(path.name + end)


def partial_of(path: Path) -> Path:
    """Where a file is while it is being made. It is there where that was killed."""
    return named(path, ".partial")


def keys_of(path: Path) -> Path:
    """The keys of a store in a file."""
    return named(path, ".keys")


def events_of(path: Path) -> Path:
    """Where the events are while an export of another format is made of them."""
    return named(path, ".events.parquet")


def unfinished(export: Path) -> list[Path]:
    """What may be left where an export was killed."""
    return [partial_of(export), events_of(export), partial_of(events_of(export))]


def remove_partial(path: Path) -> None:
    """Remove what is left of a copy of a store, of SQLite's files first: a new copy must not have the journal of an old one."""
    for end in ("-journal", "-wal", "-shm", ".keys", ""):
        named(partial_of(path), end).unlink(missing_ok=True)


def check_free(path: Path, source: Path, mend: str) -> None:
    """ValueError where the copy of a store, or its keys, would take the place of others.

    Keys of the same source are those of a copy that was killed before the store had its name, where its partial file is there.
    """
    left, keys = keys_of(path), keys_of(source)
    if partial_of(path).exists() and left.is_file() and keys.is_file() and left.read_bytes() == keys.read_bytes():
        left.unlink()
    for taken in (path, keys_of(path), named(path, "-wal")):
        if taken.exists():
            raise ValueError(f"{taken}: it is there already; {mend}")


def move_durably(file: Path, to: Path) -> None:
    """Give a file its name, in place of the one that has it; its content and the name survive a power cut."""
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
    """Where root has made a file: give it to the owner of the first of these files that is there.

    A server often runs as another account, and could not read what an administrator's command made.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return
    owner = next((one.stat() for one in like if one.exists()), None)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        # The folder is the server's: a link that was put there in time must not make a file of root's its own.
        if owner is not None and stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    finally:
        os.close(descriptor)

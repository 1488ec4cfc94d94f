"""The file of a SQLite store: where it is, and whether it may be there."""

from __future__ import annotations

from pathlib import Path

SCHEME = "sqlite:///"
"""How the address of such a store begins."""


def path_of(address: str) -> Path:
    """The file of a store's address."""
    return Path(address.removeprefix(SCHEME))


def check_place(path: Path) -> None:
    """ValueError where no store can be."""
    if not path.absolute().parent.is_dir():
        raise ValueError(f"store: the folder of {path} does not exist; make it first")
    if path.is_dir():
        raise ValueError(f"store: {path} is a folder; give a file, as sqlite:///recurrank.db")

"""Stores of the log: SQLite in a file, or PostgreSQL. ``open_store`` opens an address."""

from recurrank.serving.files import SCHEME, path_of
from recurrank.serving.store.base import Store
from recurrank.serving.store.records import StoreError

__all__ = ["Store", "StoreError", "open_store"]


def open_store(address: str, read_only: bool = False) -> Store:
    """Open ``sqlite:///file.db`` or ``postgresql://...``; ValueError for any other address.

    A file may be opened read-only while a server uses it.
    """
    scheme, separator, _ = address.partition("://")
    if address.startswith(SCHEME) and len(address) > len(SCHEME):
        from recurrank.serving.store.sqlite import SqliteStore

        return SqliteStore(path_of(address), read_only)
    if scheme in ("postgresql", "postgres") and separator:
        from recurrank.serving.store.postgres import PostgresStore

        return PostgresStore(address, read_only)
    shown = f"{scheme}://..." if separator else repr(address)
    raise ValueError(f"store: {shown} is not an address of a store; give sqlite:///recurrank.db or postgresql://user@host/name")

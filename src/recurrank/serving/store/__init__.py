"""Where the log is kept: SQLite in a file, or PostgreSQL. ``open_store`` takes an address."""

from recurrank.serving.store.base import Store, StoreError, open_store

__all__ = ["Store", "StoreError", "open_store"]

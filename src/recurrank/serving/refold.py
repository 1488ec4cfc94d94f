"""Drop the snapshots of rankers, so that the next start folds them again from the log.

Use it when snapshots differ from what the log gives, which stops retention for good. Snapshots from another processor may
differ in the last bits of their numbers; altered snapshots differ as well.
"""

from __future__ import annotations

from recurrank.serving.history import History
from recurrank.serving.store.base import Store
from recurrank.serving.store.records import StoredRanker


def refold(store: Store, name: str | None = None) -> dict[str, int]:
    """Drop the snapshots of a ranker, or of all; returns their number by ranker. No server may run on the store.

    Raises ValueError, and drops nothing, if events that a fold needs are neither in the log nor in its archive.
    """
    chosen = [stored for stored in store.rankers() if name in (None, stored.name)]
    if name is not None and not chosen:
        raise ValueError(f"ranker: there is none called {name!r}")
    if not store.lease():  # a server that learns would keep snapshots of what it has in memory
        raise ValueError("store: it is in use by a server that learns; stop all of its servers first")
    history = History(store)
    for stored in chosen:
        _check_reach(history, stored)
    kept = [ranker for ranker, _ in store.snapshot_places()]
    store.drop_snapshots([stored.number for stored in chosen])
    return {stored.name: kept.count(stored.number) for stored in chosen}


def _check_reach(history: History, stored: StoredRanker) -> None:
    """Raise ValueError unless all events of a ranker are available: the archive must be complete."""
    if history.complete:
        for _ in history.archived(stored.number):
            pass
        return
    raise ValueError(
        f"ranker {stored.name!r}: its events up to {history.floor.seq:,} were dropped, so that only its snapshots have "
        "what it learned from them; restore a backup"
    )

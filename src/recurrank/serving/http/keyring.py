"""The keys that a running server knows, and whether it requires one. A server never becomes open by itself.

A server without keys on a loopback address is open if its store has never had a key. Otherwise it is closed whatever happens
to the keys: all revoked, their file deleted or unreadable. The store notes that it has had a key, for the next start.
"""

from __future__ import annotations

import asyncio
import time

from recurrank.serving import auth
from recurrank.serving.http.problems import Refused, log
from recurrank.serving.store import Store, StoreError

LOOK_SECONDS = 2.0
"""Most seconds that a revoked key is still accepted. Under load, keys are read again after half of this time."""
PATIENCE = 1.0
"""Seconds that requests wait while keys are read again; then the last known keys apply, as the store is not available."""

_NONE = "keys: there are none, so every request is refused; make one with `recurrank keys create NAME --role admin`"
_UNREADABLE = "keys: they cannot be read, so every request is refused; the log says why"


class KeyRing:
    """The keys of a server.

    Args:
        keys: the storage of the keys.
        store: the store that they belong to, which notes that it has had a key.

    """

    def __init__(self, keys: auth.Keys, store: Store | None = None) -> None:
        self._keys, self._store = keys, store
        self._required = store is not None and auth.had_keys(keys, store)  # whether a key is required even if there are none
        self._noted = store is None or store.noted_as(auth.NOTE) is not None
        self._known: list[auth.Key] = []
        self._problem: str | None = None
        self._read = False  # whether keys were ever read
        self._looking: asyncio.Task[None] | None = None
        self._began = self._looked = float("-inf")  # start of the current reading, and of the last that ended
        if self._required:
            self._note()

    async def look(self, wait: bool = True) -> None:
        """Read the keys again if the last reading is too old.

        The first request always waits for them. Later ones with ``wait`` do so if the last reading is too old, but at most
        PATIENCE seconds: the store may not be available.
        """
        now = time.monotonic()
        if self._looking is None or self._looking.done():
            if self._read and now - self._looked <= LOOK_SECONDS / 2:
                return
            self._began, self._looking = now, asyncio.create_task(asyncio.to_thread(self.read))
        if not self._read:
            await asyncio.shield(self._looking)  # others may wait for it as well
        elif wait and now - self._looked > LOOK_SECONDS and (left := self._began + PATIENCE - now) > 0:
            await asyncio.wait({self._looking}, timeout=left)

    def read(self) -> None:
        """Read the keys."""
        began = time.monotonic()
        try:
            keys = self._keys.all()
            had = bool(keys) or (not self._required and self._keys.had_any())
        except StoreError as error:  # the keys read before still hold: none can be revoked meanwhile
            log.warning("keys cannot be read", why=str(error))
            if not self._read:
                self._required, self._problem = True, _UNREADABLE
            self._looked = time.monotonic()  # so that the next requests do not wait for the store again
            return
        except (ValueError, OSError) as error:
            log.error("keys cannot be read; every request is refused", why=str(error))
            self._known, self._required, self._problem = [], True, _UNREADABLE
            had = False
        else:
            self._required = self._required or had
            self._known = keys
            problem = _NONE if self._required and not keys else None
            if problem and self._problem != problem:
                log.error("there are no keys; every request is refused")
            self._problem = problem
        self._read, self._looked = True, began
        if had:
            self._note()

    def _note(self) -> None:
        """Note in the store that it has had a key."""
        if self._store is None or self._noted:
            return
        try:
            self._store.note(auth.NOTE, b"")
            self._noted = True
        except StoreError as error:  # the next reading tries again
            log.warning("the store cannot note that it has keys", why=str(error))

    @property
    def required(self) -> bool:
        """Whether a key is required."""
        return self._required

    @property
    def problem(self) -> str | None:
        """Why every request is refused now; None if it is not."""
        return self._problem

    @property
    def origins(self) -> set[str]:
        """The origins that keys are bound to: their pages may use the server, with such a key."""
        return {origin for key in self._known if (origin := key.bound("origin"))}

    def owner(self, authorization: bytes) -> auth.Key:
        """The key in an Authorization header; Refused if it is not a known one."""
        if self._problem == _UNREADABLE:
            raise Refused(503, _UNREADABLE, {"retry-after": "5"})
        scheme, _, secret = authorization.decode("latin-1").partition(" ")
        key = auth.owner(self._known, secret) if scheme.lower() == "bearer" else None
        if key is None:
            detail = self._problem or "authorization: give a key, as in 'Authorization: Bearer rk_...'"
            raise Refused(401, detail, {"www-authenticate": "Bearer"})
        return key

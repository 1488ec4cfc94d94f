"""The keys that a running server knows, and whether it asks for one. It never opens by itself.

A server without keys on a loopback address is open. One that has seen a key, or was told that keys are required, stays closed
whatever becomes of them: all revoked, their file deleted or unreadable.
"""

from __future__ import annotations

import asyncio
import time

from recurrank.serving import auth
from recurrank.serving.http.problems import Refused, log
from recurrank.serving.store import StoreError

LOOK_SECONDS = 2.0
"""Seconds that a revoked key may still be accepted. Under load keys are read again after half of them."""
PATIENCE = 1.0
"""Seconds that requests wait for keys that are read again; then those that were read last hold, as the store is away."""

_NONE = "keys: there are none, so every request is refused; make one with `recurrank keys create NAME --role admin`"
_UNREADABLE = "keys: they cannot be read, so every request is refused; the log says why"


class KeyRing:
    """The keys of a server.

    Args:
        keys: where they are kept.
        required: whether a key is asked for even though there are none.

    """

    def __init__(self, keys: auth.Keys, *, required: bool = False) -> None:
        self._keys, self._required = keys, required
        self._known: list[auth.Key] = []
        self._problem: str | None = None
        self._read = False  # whether they ever were
        self._looking: asyncio.Task[None] | None = None
        self._began = self._looked = float("-inf")  # the reading under way, and the last one that ended

    async def look(self, wait: bool = True) -> None:
        """Read the keys again if it is time to.

        The first request waits for them in any case. Later ones do, if they ``wait``, where the last reading is too long ago,
        and not for longer than the store may take: it may be away.
        """
        now = time.monotonic()
        if self._looking is None or self._looking.done():
            if self._read and now - self._looked <= LOOK_SECONDS / 2:
                return
            self._began, self._looking = now, asyncio.create_task(asyncio.to_thread(self.read))
        if not self._read:
            await asyncio.shield(self._looking)  # others may wait for it, too
        elif wait and now - self._looked > LOOK_SECONDS and (left := self._began + PATIENCE - now) > 0:
            await asyncio.wait({self._looking}, timeout=left)

    def read(self) -> None:
        """Read the keys."""
        began = time.monotonic()
        try:
            keys = self._keys.all()
        except StoreError as error:  # the keys read before hold: none can be revoked meanwhile
            log.warning("keys cannot be read", why=str(error))
            if not self._read:
                self._required, self._problem = True, _UNREADABLE
            self._looked = time.monotonic()  # the next requests need not wait for the store again
            return
        except (ValueError, OSError) as error:
            log.error("keys cannot be read; every request is refused", why=str(error))
            self._known, self._required, self._problem = [], True, _UNREADABLE
        else:
            self._required = self._required or bool(keys)
            self._known = keys
            problem = _NONE if self._required and not keys else None
            if problem and self._problem != problem:
                log.error("there are no keys; every request is refused")
            self._problem = problem
        self._read, self._looked = True, began

    @property
    def required(self) -> bool:
        """Whether a key is asked for."""
        return self._required

    @property
    def problem(self) -> str | None:
        """Why nobody can be let in now, if that is so."""
        return self._problem

    @property
    def origins(self) -> set[str]:
        """The origins of pages that keys are bound to: these pages may use the server, with such a key."""
        return {origin for key in self._known if (origin := key.bound("origin"))}

    def owner(self, authorization: bytes) -> auth.Key:
        """The key in an Authorization header; Refused when it is not one of these."""
        if self._problem == _UNREADABLE:
            raise Refused(503, _UNREADABLE, {"retry-after": "5"})
        scheme, _, secret = authorization.decode("latin-1").partition(" ")
        key = auth.owner(self._known, secret) if scheme.lower() == "bearer" else None
        if key is None:
            detail = self._problem or "authorization: give a key, as in 'Authorization: Bearer rk_...'"
            raise Refused(401, detail, {"www-authenticate": "Bearer"})
        return key

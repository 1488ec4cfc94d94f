"""API keys: who may rank, report or administer. Only hashes are stored; the secret is shown once.

A secret has 256 random bits, so that one round of SHA-256 is enough; comparisons take constant time.
Keys of a SQLite store are in a separate file next to it, so that ``recurrank keys`` can write while a server runs.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from recurrank.serving.files import SCHEME, check_path, give_to_owner, keys_of, path_of

if TYPE_CHECKING:
    from recurrank.serving.store import Store

try:
    import fcntl
except ImportError:  # Windows: two commands at once may lose a key there
    fcntl = None  # type: ignore[assignment]

ROLES = ("rank", "feedback", "admin")
PREFIX = "rk_"
NOTE = "keys"
"""Name of the store's note that it has had a key."""
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has none


class Key(NamedTuple):
    """A stored API key. Besides roles it may have bounds, such as ``ranker=shop``: what it may do, and how often."""

    name: str
    hash: str
    roles: tuple[str, ...]
    created: float

    def bound(self, what: str) -> str | None:
        """The value of a bound, None if there is none: ``ranker``, ``origin`` (of pages), or ``rate`` (per second)."""
        return next((role.partition("=")[2] for role in self.roles if role.startswith(f"{what}=")), None)


Change = Callable[[list[Key]], list[Key]]


class Keys(Protocol):
    """A storage of keys."""

    def all(self) -> list[Key]:
        """Every key, oldest first."""

    def had_any(self) -> bool:
        """Whether there has ever been a key, as far as the storage itself can tell."""

    def change(self, change: Change) -> None:
        """Replace all keys by what ``change`` returns for them, exclusively. If it raises, the keys stay as they are."""

    def close(self) -> None:
        """Close the storage."""


class KeyFile:
    """Keys in a JSON file that only its owner can read: the account that owns the store, whoever writes the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[Key]:
        try:
            listed = json.loads(self.path.read_text(encoding="utf-8"))
            return [Key(key["name"], key["hash"], tuple(key["roles"]), key["created"]) for key in listed]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise ValueError(
                f"{self.path}: not a file of keys ({error}); restore it, or delete it and make new keys"
            ) from error

    def had_any(self) -> bool:
        return self.path.exists()  # revoking the last key leaves an empty list

    def close(self) -> None:
        pass  # the file is open only while it is used

    def change(self, change: Change) -> None:
        with self._locked():
            self._write(change(self.all()))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold a lock on a separate file: the file of keys is replaced, so that a lock on it would be lost."""
        lock = self.path.with_name(self.path.name + ".lock")
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | _NOFOLLOW, 0o600)
        try:
            self._give(lock)
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, keys: list[Key]) -> None:
        partial = self.path.with_name(self.path.name + ".partial")
        partial.unlink(missing_ok=True)  # left by a killed command
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump([key._asdict() for key in keys], file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        self._give(partial)
        os.replace(partial, self.path)

    def _give(self, made: Path) -> None:
        give_to_owner(made, self.path, self.path.with_suffix(""), self.path.absolute().parent)


def open_keys(address: str) -> Keys:
    """The keys of a store."""
    if address.startswith(SCHEME) and len(address) > len(SCHEME):
        path = path_of(address)
        check_path(path)
        return KeyFile(keys_of(path))
    if address.startswith(("postgresql://", "postgres://")):
        from recurrank.serving.store.postgres import PostgresKeys

        return PostgresKeys(address)
    raise ValueError(
        f"store: {address.partition('://')[0]!r} is not a store; give sqlite:///recurrank.db or postgresql://user@host/name"
    )


def check_guarded(keys: Keys, host: str) -> bool:
    """Whether there are keys; ValueError if there are none and the server would listen to other machines."""
    guarded = bool(keys.all())
    if not guarded and not _loopback(host):
        raise ValueError(
            f"host: {host} is open to others and there are no keys; make one first: recurrank keys create NAME --role admin"
        )
    return guarded


def had_keys(keys: Keys, store: Store) -> bool:
    """Whether a store has ever had a key: then its servers require one, even if all keys are gone."""
    return keys.had_any() or store.noted_as(NOTE) is not None


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def create(
    keys: Keys, name: str, roles: list[str], ranker: str | None = None, origin: str | None = None, rate: float | None = None
) -> str:
    """Create a key; returns its secret, which cannot be retrieved later.

    A key in a page is public: bind it to a ranker, to the page's origin and to a rate per second.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        raise ValueError(f"name: {name!r} is not a key's name; give 1 to 64 letters, digits, dots, dashes or underscores")
    for role in roles or [""]:
        if role not in ROLES:
            raise ValueError(f"roles: {role!r} is unknown; choose from {', '.join(ROLES)}")
    bounds = _bounds(roles, ranker, origin, rate)
    secret = PREFIX + secrets.token_urlsafe(32)
    new = Key(name, hashed(secret), (*dict.fromkeys(roles), *bounds), time.time())

    def added(existing: list[Key]) -> list[Key]:
        if any(key.name == name for key in existing):
            raise ValueError(f"name: there is a key called {name!r}; revoke it first, or choose another name")
        return [*existing, new]

    keys.change(added)
    return secret


def _bounds(roles: list[str], ranker: str | None, origin: str | None, rate: float | None) -> list[str]:
    """The bounds of a key as they are stored; ValueError for invalid ones."""
    if "admin" in roles and (ranker, origin) != (None, None):
        raise ValueError("roles: a key with the role admin may do everything; give rank or feedback to one that is bound")
    if ranker is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", ranker):
        raise ValueError(f"ranker: {ranker!r} is not a ranker's name")
    origin = None if origin is None else checked_origin(origin)
    if rate is not None and not 0 < rate <= 1e6:
        raise ValueError(f"rate: {rate:g} is not a number of requests per second; give one above 0")
    bounds = {"ranker": ranker, "origin": origin, "rate": None if rate is None else f"{rate:g}"}
    return [f"{what}={value}" for what, value in bounds.items() if value is not None]


def checked_origin(origin: str, option: str = "origin") -> str:
    """An origin as browsers send it: in lower case, without the default port of its scheme; ValueError if it is not one.

    >>> checked_origin("https://Shop.Example:443")
    'https://shop.example'
    """
    spelled = re.sub(r"^(http://.*):80$|^(https://.*):443$", r"\1\2", origin.lower())
    if not re.fullmatch(r"https?://[a-z0-9.:\[\]-]+", spelled):
        raise ValueError(f"{option}: {origin!r} is not an origin; give one as https://shop.example, without a path")
    return spelled


def revoke(keys: Keys, name: str) -> None:
    """Revoke a key; servers notice within seconds."""

    def without(existing: list[Key]) -> list[Key]:
        if not any(key.name == name for key in existing):
            raise ValueError(f"name: there is no key called {name!r}; `recurrank keys list` shows those that there are")
        return [key for key in existing if key.name != name]

    keys.change(without)


def hashed(secret: str) -> str:
    """The hash that is stored for a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def owner(keys: list[Key], secret: str) -> Key | None:
    """The key with this secret, if any; always compares with all keys, so that the time reveals nothing."""
    found, given = None, hashed(secret)
    for key in keys:
        if hmac.compare_digest(key.hash, given):
            found = key
    return found

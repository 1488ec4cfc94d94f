"""``recurrank doctor``: find problems of a server before they hurt, one line per check."""

from __future__ import annotations

import os
import platform
import re
import resource
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote

from recurrank import __version__
from recurrank.serving.archive import Archive
from recurrank.serving.auth import Keys, check_guarded, had_keys, open_keys
from recurrank.serving.files import SCHEME, check_path, keys_of, path_of
from recurrank.serving.known_archives import check_dropping, known, next_step, predecessor
from recurrank.serving.store import Store, StoreError, open_store

Verdict = Literal["ok", "look", "wrong"]
"""Fine; worth a look; must be repaired."""

CODES: dict[Verdict, int] = {"ok": 0, "look": 1, "wrong": 2}
"""Exit codes of the command, which returns the worst of all checks."""

FREE, FILES, CLOCK = 0.1, 4096, 60.0
"""Thresholds of a finding: free share of the disk, limit of open files, and seconds that the last event is in the future."""


MOST = 1 << 30
"""Size of the largest store that is searched for damage, in bytes."""


class Check(NamedTuple):
    """One line of the report."""

    name: str
    verdict: Verdict
    detail: str


def examine(address: str, archive: str | None = None, host: str = "127.0.0.1", dropping: bool = False) -> Iterator[Check]:
    """Run all checks of a server with this store that listens at ``host``; ``dropping`` says that it would drop old events
    without having been told to (``--drop``).
    """
    yield Check("version", "ok", f"recurrank {__version__}, Python {platform.python_version()}, {_versions()}")
    yield _files()
    yield _cache()
    yield from _guarded("keys", address, lambda: _keys(address, host))
    try:
        store = open_store(address, read_only=True) if _there(address) else None
    except (ValueError, StoreError) as error:
        yield Check("store", "wrong", _why(error, address))
        return
    if store is None:
        yield Check("store", "look", f"there is no file {path_of(address)} yet; a server makes it")
        return
    with closing(store):
        for name, check in (("store", _store), ("clock", _clock), ("disk", _disk)):
            yield from _guarded(name, address, lambda check=check: check(store))  # type: ignore[misc]
        yield from _guarded("archive", address, lambda: _archive(store, archive, dropping))


def _guarded(name: str, address: str, check: Callable[[], Check]) -> Iterator[Check]:
    try:
        yield check()
    except (ValueError, OSError, StoreError) as error:
        yield Check(name, "wrong", _why(error, address))


def _why(error: Exception, address: str) -> str:
    """The error in one line, including the database's own message, which a server does not log, but not the password."""
    text, cause = str(error), error.__cause__
    if isinstance(error, StoreError) and cause is not None and str(cause) not in text:
        text += f": {cause}"
    _, _, rest = address.partition("://")
    inside = rest.rpartition("@")[0].partition(":")[2]  # a misspelled address may be split elsewhere
    given = {inside, *re.split("[@/:?#]", inside), *re.findall(r"password=([^&\s]+)", rest)}
    for secret in sorted(given | {unquote(part) for part in given}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return " ".join(text.split())


def _there(address: str) -> bool:
    """Whether the store exists; ValueError if it cannot."""
    if not address.startswith(SCHEME):
        return True
    check_path(path_of(address))
    return path_of(address).is_file()


def _versions() -> str:
    versions = [f"SQLite {sqlite3.sqlite_version}"]
    for name in ("numpy", "numba", "msgspec", "uvicorn", "psycopg", "pyarrow"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"no {name}")
    return ", ".join(versions)


def _files() -> Check:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft < FILES:
        return Check("files", "look", f"at most {soft:,} open files, which limits connections; raise it (ulimit -n)")
    return Check("files", "ok", f"at most {soft:,} open files")


def _cache() -> Check:
    """Check the folder in which numba caches machine code."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(sys.modules["recurrank"].__file__ or ".").parent)
    if os.access(folder, os.W_OK):
        return Check("machine code", "ok", f"kept in {folder}")
    return Check("machine code", "look", f"{folder} cannot be written, only the home may keep it; set NUMBA_CACHE_DIR")


def _keys(address: str, host: str) -> Check:
    file = keys_of(path_of(address)) if address.startswith(SCHEME) else None
    with closing(open_keys(address)) as kept:
        if not check_guarded(kept, host):
            if _had_keys(kept, address):
                return Check("keys", "wrong", "all are revoked or gone: every request is refused; see `recurrank keys create`")
            return Check("keys", "look", "there are none: the server listens on this machine only; see `recurrank keys create`")
        keys = kept.all()
    if file is not None and stat.S_IMODE(file.stat().st_mode) & 0o077:
        return Check("keys", "wrong", f"{file} can be read by others; chmod 600 it")
    if not any("admin" in key.roles for key in keys):
        return Check("keys", "look", f"{len(keys)} keys, none of them with the role admin")
    return Check("keys", "ok", f"{len(keys)} keys")


def _had_keys(kept: Keys, address: str) -> bool:
    if kept.had_any() or not _there(address):
        return kept.had_any()
    with suppress(StoreError), closing(open_store(address, read_only=True)) as store:  # the store's own check says why
        return had_keys(kept, store)
    return False


def _store(store: Store) -> Check:
    head, floor = store.head(), store.floor()
    if store.newest() != head.seq:
        return Check("store", "wrong", "its last events are missing; see `recurrank log verify`")
    size, note = store.size(), f", the log begins after {floor.seq:,}" if floor.seq else ""
    if size <= MOST:
        for what in store.damage():
            return Check("store", "wrong", f"it is damaged ({what}); see `recurrank log verify`, and restore a backup")
    elif not store.shared:
        note += ", too large to be searched for damage here: see `recurrank log verify`"
    return Check("store", "ok", f"{len(store.rankers())} rankers, {head.seq:,} events, {size >> 20:,} MB{note}")


def _clock(store: Store) -> Check:
    last = store.lines(store.head().seq - 1, store.head().seq, 1)
    ahead = last[0].at - time.time() if last else 0.0
    if ahead > CLOCK:
        return Check("clock", "wrong", f"the last event is {ahead:,.0f} s in the future; set the clock (NTP)")
    return Check("clock", "ok", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _disk(store: Store) -> Check:
    usage = store.disk()
    if usage is None:
        return Check("disk", "ok", "the database's own; watch it there")
    total, free = usage
    text = f"{free >> 20:,} of {total >> 20:,} MB are free"
    return Check("disk", "look" if free < FREE * total else "ok", text)


def _archive(store: Store, where: str | None, dropping: bool) -> Check:
    floor, text = store.floor(), "none"
    if dropping:
        check_dropping(floor, None, drop=False)
    address = where or floor.archive
    if address is not None:
        archive = Archive(address)
        address = archive.address
        archive.check_usable()
        if predecessor(store, archive, floor) is None:
            next_step(store, archive, floor)
        text = f"{address}, up to event {archive.manifest().last:,}"
    former = [other for other in known(store) if other != address]
    lost = [other for other in former if not Archive(other).there]
    if former:
        text += f"; before: {', '.join(former)}"
    if lost:
        text += f"; not there: {', '.join(lost)}, where an erasure will look"
    return Check("archive", "look" if lost else "ok", text)

"""``recurrank backup``: a copy of a store while its server runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from recurrank.cli.keys import store_option
from recurrank.cli.shared import json_option, print_json

LOWEST = 19
"""Priority (niceness) of the copying process: a busy server's requests come first."""


@click.command()
@click.argument("to", type=click.Path(path_type=Path))
@store_option
@json_option
def command(to: Path, store: str, as_json: bool) -> None:
    """Copy a SQLite store and its keys into the file TO, while the server runs; the copy is checked.

    Copying recurrank.db by other means loses what is in recurrank.db-wal. For PostgreSQL use pg_dump.
    """
    with _lowest_priority():
        from recurrank.serving.backup import backup

        copy = backup(store, to)
    if as_json:
        print_json({"path": str(copy.path), "events": copy.events, "keys": copy.keys})
    else:
        click.echo(f"{copy.events:,} events{' and the keys' if copy.keys else ''}: {copy.path}")


@contextmanager
def _lowest_priority() -> Iterator[None]:
    """Run at the lowest priority, where the system supports it; only root can restore the old one."""
    if not hasattr(os, "setpriority"):  # Windows
        yield
        return
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)

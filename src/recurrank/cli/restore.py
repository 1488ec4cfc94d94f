"""``recurrank restore``: a store from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from recurrank.cli.keys import store_option
from recurrank.cli.log import archive_option
from recurrank.cli.shared import json_option, print_json


@click.command()
@click.argument("source", metavar="FROM", type=click.Path(path_type=Path))
@store_option
@click.option("--at", metavar="SEQ|TIME", help="The last event to restore: its number, or a time in UTC.")
@archive_option
@json_option
def command(source: Path, store: str, at: str | None, archive: str | None, as_json: bool) -> None:
    """Make a SQLite store, and its keys, from the backup FROM; --store must not exist yet.

    Events that left the log before --at are put back from its archive; give the server a new archive then.

    For PostgreSQL use pg_restore.
    """
    from recurrank.serving.restore import restore

    restored = restore(source, store, at, archive)
    if as_json:
        print_json(restored._asdict() | {"path": str(restored.path)})
    else:
        later = f", {restored.left_out:,} later ones left out" if restored.left_out else ""
        later += f", {restored.from_archive:,} from the archive" if restored.from_archive else ""
        click.echo(f"{restored.events:,} events{later}{' and the keys' if restored.keys else ''}: {restored.path}")

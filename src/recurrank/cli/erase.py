"""``recurrank erase``: removes what names a subject."""

from __future__ import annotations

from pathlib import Path

import click

from recurrank.cli.keys import store_option
from recurrank.cli.log import archive_option, opened_store
from recurrank.cli.shared import json_option, print_json


@click.command()
@click.argument("subject")
@store_option
@archive_option
@click.option(
    "--export", "exports", multiple=True, type=click.Path(path_type=Path), help="A Parquet or UBI export, too; may be repeated."
)
@click.option("--gone", multiple=True, help="A former archive that was moved or deleted; may be repeated.")
@json_option
def command(
    subject: str, store: str, archive: str | None, exports: tuple[Path, ...], gone: tuple[str, ...], as_json: bool
) -> None:
    """Remove what names SUBJECT, as it was sent with rank requests, from the log, its archives and exports.

    What was learned stays, and the log can still be verified. With SQLite stop the server first. Backups are stores, too.
    """
    from recurrank.serving.erase import erase

    with opened_store(store) as opened:
        done = erase(opened, subject, archive, exports, gone)
    if as_json:
        print_json(done._asdict())
        return
    click.echo(f"log: erased from {done.log:,} slates")
    for where, count in done.archives.items():
        click.echo(f"archive {where}: erased from {count:,} slates")
    for where, count in done.exports.items():
        click.echo(f"{where}: erased from {count:,} rows")

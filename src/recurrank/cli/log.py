"""``recurrank log``: verify, replay, refold, export or import logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.keys import store_option
from recurrank.cli.shared import json_option, output_path, plugin_option, print_json

archive_option = click.option("--archive", help="The log's archive, if it is not where the store says.")


@click.group()
def command() -> None:
    """Verify, replay, refold or export the log of a service (with SQLite, stop its server first); import a log of pages."""


@command.command(short_help="Check that no event is missing, altered or added.")
@store_option
@archive_option
@json_option
def verify(store: str, archive: str | None, as_json: bool) -> None:
    """Check that no event is missing, altered or added, and that the rows beside the log say the same as it does.

    Events that left the log are read from its archive.
    """
    from recurrank.serving.verify import verify as verify_log

    with opened_store(store) as opened:
        events, chained, faults = verify_log(opened, archive)
    if as_json:
        print_json({"events": events, "chained_from": chained, "faults": faults})
    else:
        since = f"; not chained before event {chained:,}" if chained > 1 else ""
        click.echo("\n".join(faults) or f"{events:,} events: sound{since}")
    if faults:
        raise SystemExit(1)


@command.command(short_help="Fold the log and compare with every snapshot.")
@store_option
@archive_option
@json_option
@plugin_option
def replay(store: str, archive: str | None, as_json: bool) -> None:
    """Fold the log from its start, in its archive if it has one, and compare with every snapshot.

    Where old events were dropped, the replay begins with the snapshot that was verified before.
    """
    from recurrank.serving.audit import replay as replay_log

    with opened_store(store) as opened:
        findings = [replay_log(opened, stored, archive) for stored in opened.rankers()]
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            result = "; ".join(finding.faults) or f"{finding.snapshots} snapshots as the log gives them"
            click.echo(
                f"{finding.name}: {finding.events:,} events, state {finding.digest[:12]} after event {finding.seq}; {result}"
            )
    if any(finding.faults for finding in findings):
        raise SystemExit(1)


@command.command(short_help="Drop snapshots; the next start folds the log anew.")
@click.option("--ranker", help="Only this one; by default all.")
@store_option
@json_option
def refold(ranker: str | None, store: str, as_json: bool) -> None:
    """Drop snapshots, so that the next start folds the log and its archive anew: for snapshots that differ from a replay.

    Stop all servers of the store first. What was learned is learned again, from the same events.
    """
    from recurrank.serving.refold import refold as refold_log

    with opened_store(store) as opened:
        dropped = refold_log(opened, ranker)
    if as_json:
        print_json(dropped)
        return
    for name, count in dropped.items():
        click.echo(f"{name}: {count:,} snapshots dropped; the next start folds its log anew")


@command.command(short_help="Write the log as Parquet or UBI JSON lines.")
@click.argument("path", type=click.Path(path_type=Path))
@store_option
@archive_option
@click.option(
    "--format", "kind", type=click.Choice(["parquet", "ubi"]), default="parquet", show_default=True, help="ubi: JSON lines."
)
def export(path: Path, store: str, archive: str | None, kind: str) -> None:
    """Write the log into PATH: Parquet with one row per event, or OpenSearch UBI JSON lines, queries and click events."""
    from recurrank.serving.audit import export as export_log
    from recurrank.serving.files import events_of

    output_path(path, (".parquet",) if kind == "parquet" else (".jsonl", ".ndjson"))
    events = path if kind == "parquet" else events_of(path)
    try:
        with opened_store(store) as opened:
            count = export_log(opened, events, archive)
        if kind == "ubi":
            from recurrank.logs.formats.ubi import write

            count = write(events, path)
    finally:
        if kind == "ubi":
            events.unlink(missing_ok=True)
    click.echo(f"{count:,} {'events' if kind == 'parquet' else 'pages'}: {path}")


@command.command("import", short_help="Check a log of pages and clicks; write it as Parquet.")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The .parquet file to write.")
@click.option("--format", "kind", help="lists, long, ubi, metarank or events (our export); by default detected.")
@click.option("--skip-bad", is_flag=True, help="Skip invalid pages and lines, and count them.")
@json_option
def import_(sources: tuple[Path, ...], out: Path, kind: str | None, skip_bad: bool, as_json: bool) -> None:
    """Check a log of pages and clicks in any known format and write it as Parquet, for `recurrank fit` and `evaluate`.

    SOURCES is one file, or several of an OpenSearch UBI log. A stopped import resumes where it was.
    """
    from recurrank.logs.importing import import_log

    output_path(out, (".parquet",))
    found = import_log(sources, out, kind=kind, skip_bad=skip_bad)
    if as_json:
        print_json(found._asdict())
        return
    for complaint in found.complaints:
        click.echo(complaint, err=True)
    left_out = f", {found.bad:,} bad ones left out" if found.bad else ""
    click.echo(f"{found.pages:,} pages ({found.format}){left_out}: {out}")


def opened_store(address: str) -> Any:
    """An existing store, which the end of a ``with`` block closes."""
    from contextlib import closing

    from recurrank.serving.files import SCHEME, path_of
    from recurrank.serving.store import open_store

    if address.startswith(SCHEME) and not path_of(address).is_file():
        raise ValueError(f"store: there is no file {path_of(address)}; give the server's --store")
    return closing(open_store(address))

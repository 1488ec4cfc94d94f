"""``recurrank log``: the log of a service, checked, replayed or handed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.keys import store_option
from recurrank.cli.shared import json_option, output_path, plugin_option, print_json


@click.group()
def command() -> None:
    """Verify, replay or export the log of a service. A SQLite store's server has to be stopped first."""


@command.command()
@store_option
@json_option
def verify(store: str, as_json: bool) -> None:
    """Check that no event is missing, altered or added, and that the rows beside the log say the same as it does."""
    from recurrank.serving.verify import verify as verify_log

    with _opened(store) as opened:
        events, chained, faults = verify_log(opened)
    if as_json:
        print_json({"events": events, "chained_from": chained, "faults": faults})
    else:
        since = f"; not chained before event {chained:,}" if chained > 1 else ""
        click.echo("\n".join(faults) or f"{events:,} events: sound{since}")
    if faults:
        raise SystemExit(1)


@command.command()
@store_option
@json_option
@plugin_option
def replay(store: str, as_json: bool) -> None:
    """Fold the log from its start and compare with every snapshot."""
    from recurrank.serving.audit import replay as replay_log

    with _opened(store) as opened:
        findings = [replay_log(opened, stored) for stored in opened.rankers()]
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            said = "; ".join(finding.faults) or f"{finding.snapshots} snapshots as the log gives them"
            click.echo(
                f"{finding.name}: {finding.events:,} events, state {finding.digest[:12]} after event {finding.seq}; {said}"
            )
    if any(finding.faults for finding in findings):
        raise SystemExit(1)


@command.command()
@click.argument("path", type=click.Path(path_type=Path))
@store_option
def export(path: Path, store: str) -> None:
    """Write the log into PATH, a Parquet file: one row per event."""
    from recurrank.serving.audit import export as export_log

    output_path(path, (".parquet",))
    with _opened(store) as opened:
        count = export_log(opened, path)
    click.echo(f"{count:,} events: {path}")


def _opened(address: str) -> Any:
    from contextlib import closing

    from recurrank.serving.store import StoreError, open_store

    if address.startswith("sqlite:///") and not Path(address.removeprefix("sqlite:///")).is_file():
        raise ValueError(f"store: there is no file {address.removeprefix('sqlite:///')}; give the server's --store")
    try:
        return closing(open_store(address))
    except StoreError as error:
        raise ValueError(f"store: {error}") from error

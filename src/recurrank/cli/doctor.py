"""``recurrank doctor``: checks what a server needs."""

from __future__ import annotations

from pathlib import Path

import click

from recurrank.cli.serve import command as serve
from recurrank.cli.serve import read_options
from recurrank.cli.shared import json_option, print_json


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="The server's TOML file.")
@click.option("--store", envvar="RECURRANK_STORE", help="The server's store; by default that of the TOML file.")
@click.option("--archive", envvar="RECURRANK_ARCHIVE", help="The log's archive, if it is not where the store says.")
@json_option
def command(config: Path | None, store: str | None, archive: str | None, as_json: bool) -> None:
    """Check configuration, versions, keys, store, clock, disk and archive, one line each.

    Exits with 0 if all is well, 1 if something should be looked at, 2 if something has to be mended.
    """
    from recurrank.serving.doctor import CODES, Check, examine

    checks, options = [], {}
    if config is not None:
        try:
            options = read_options(config, serve)
            checks.append(Check("configuration", "ok", f"{config}: {len(options)} options"))
        except ValueError as error:
            checks.append(Check("configuration", "wrong", str(error)))
    address = store or options.get("store") or next(p.default for p in serve.params if p.name == "store")
    checks += examine(str(address), archive or options.get("archive"))
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        for check in checks:
            click.echo(f"{check.verdict:<6}{check.name}: {check.detail}")
    raise SystemExit(max(CODES[check.verdict] for check in checks))

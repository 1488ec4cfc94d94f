"""``recurrank doctor``: checks what a server needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recurrank.cli.serve import check_options, read_options
from recurrank.cli.serve import command as serve
from recurrank.cli.shared import json_option, print_json

if TYPE_CHECKING:
    from recurrank.serving.doctor import Check


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="The server's TOML file.")
@click.option("--store", envvar="RECURRANK_STORE", help="The server's store; by default that of the TOML file.")
@click.option("--archive", envvar="RECURRANK_ARCHIVE", help="The log's archive, if it is not where the store says.")
@json_option
def command(config: Path | None, store: str | None, archive: str | None, as_json: bool) -> None:
    """Check configuration, versions, keys, store, clock, disk and archive, one line each.

    Exits with 0 if all is well, 1 if something should be looked at, 2 if something has to be mended.
    """
    from recurrank.serving.doctor import CODES, examine

    check, options = _configured(config, store)
    dropping = options["retain"] is not None and options["archive"] is None and not options["drop"]
    checks = [check, *examine(options["store"], archive or options["archive"], options["host"], dropping)]
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        for check in checks:
            click.echo(f"{check.verdict:<6}{check.name}: {check.detail}")
    raise SystemExit(max(CODES[check.verdict] for check in checks))


def _configured(config: Path | None, store: str | None) -> tuple[Check, dict[str, Any]]:
    """Whether ``recurrank serve`` accepts the same options, and their values; the default instead of an invalid one."""
    from recurrank.serving.doctor import Check

    arguments = [f"--config={config}"] if config else []
    arguments += [f"--store={store}"] if store else []
    wrong = []
    try:
        options = serve.make_context("serve", [*arguments]).params
    except (ValueError, OSError, click.ClickException) as error:
        wrong.append(error.format_message() if isinstance(error, click.ClickException) else str(error))
        valid = serve.make_context("serve", arguments, resilient_parsing=True).params
        defaults = serve.make_context("serve", [], auto_envvar_prefix=None).params
        options = {name: defaults[name] if value is None else value for name, value in valid.items()}
    try:
        check_options(**options)
    except (ValueError, OSError) as error:
        wrong.append(str(error))
    if wrong:
        return Check("configuration", "wrong", " ".join("; ".join(wrong).split())), options
    source = "the environment and defaults" if config is None else f"{config}: {len(read_options(config, serve))} options"
    return Check("configuration", "ok", source), options

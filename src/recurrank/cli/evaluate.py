"""``recurrank evaluate``: what another ranking would have earned on a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.shared import console, json_option, output_path, plugin_option, print_json

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("log", type=FILE)
@click.option("--policy", required=True, help="shown, order:a,b,c, order:FILE, scores:FILE.csv or ranker:NAME[:option=value].")
@click.option(
    "--estimators",
    help="iips, sn-iips, rips, sn-rips, cascade-dr, position, direct; by default all but the last, and position on large logs.",
)
@click.option("--model", help="The click model of the direct method; by default the one that explains LOG best.")
@click.option("--interval", default="bootstrap", show_default=True, help="bootstrap or bernstein.")
@click.option("--seed", default=0, show_default=True, help="Seed of the bootstrap and of a ranker.")
@click.option("--plot", type=FILE, help="Draw the estimates into this .png, .svg or .pdf.")
@json_option
@plugin_option
def command(log: Path, plot: Path | None, as_json: bool, **settings: Any) -> None:
    """Estimate the clicks per page that a policy would have earned on LOG, a file of pages and clicks.

    An estimator that the log cannot support refuses and says why; the exit code is 1 where all of them do.
    """
    from recurrank.logs.evaluate.report import evaluate

    if plot is not None:
        output_path(plot, (".png", ".svg", ".pdf"))
    found = evaluate(log, **settings)
    answered = [row for row in found.rows if not row.refused]
    if plot is not None and answered:
        found.figure().savefig(plot)
    if as_json:
        rows = [{key: None if value != value else value for key, value in row._asdict().items()} for row in found.rows]
        facts = {name: getattr(found, name) for name in ("policy", "pages", "shown", "overlap", "notes")}
        print_json({**facts, "estimates": rows})
    else:
        _print(found)
    if not answered:
        raise SystemExit(1)


def _print(found: Any) -> None:
    from rich.table import Table

    from recurrank.logs.evaluate.report import ASSUMES

    out, assumed, refused = console(), dict[str, list[str]](), dict[str, list[str]]()
    table = Table()
    for heading in ("estimator", "clicks per page", "95 % interval", "effective pages"):
        table.add_column(heading, no_wrap=True, justify="left" if heading == "estimator" else "right")
    for row in found.rows:
        if row.refused:
            refused.setdefault(row.refused, []).append(row.estimator)
            continue
        table.add_row(row.estimator, f"{row.value:.4f}", f"{row.low:.4f} to {row.high:.4f}", f"{row.effective:,.0f}")
        assumed.setdefault(ASSUMES[row.estimator.partition(" ")[0]], []).append(row.estimator)
    out.print(f"{found.policy}: clicks per page on {found.pages:,} pages (shown: {found.shown:.4f})")
    if assumed:
        out.print(table)
    for assumption, names in assumed.items():
        out.print(f"{', '.join(names)}: {assumption}")
    for reason, names in refused.items():
        out.print(f"{', '.join(names)} refused: {reason}")
    if found.overlap:
        shares = ", ".join(f"{share:.0%}" for share in found.overlap)
        out.print(f"overlap, by position (pages for whose query the log shows the policy's item there): {shares}")
    for note in found.notes:
        out.print(f"note: {note}")

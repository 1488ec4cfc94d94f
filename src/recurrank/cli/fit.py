"""``recurrank fit``: click models fitted to a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.shared import console, json_option, output_path, print_json

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("log", type=FILE)
@click.option("--test", type=FILE, help="A log to test on; without it, a part of LOG.")
@click.option("--models", default="pbm,cm,dcm,sdbn,dbn,ccm,ubm", show_default=True, help="Which, separated by commas.")
@click.option(
    "--split", type=click.Choice(["time", "random", "none"]), help="How LOG is split; by default by time, where it has times."
)
@click.option("--share", default=0.25, show_default=True, help="Share of the pages that are tested on, without --test.")
@click.option("--shared", is_flag=True, help="One attraction per item over all queries, not one per query and item.")
@click.option("--seed", default=0, show_default=True, help="Of a random split.")
@click.option("--out", type=FILE, help="Write the fitted models into this .json file.")
@click.option("--plot", type=FILE, help="Draw perplexity and examination by position into this .png, .svg or .pdf.")
@json_option
def command(log: Path, out: Path | None, plot: Path | None, as_json: bool, **settings: Any) -> None:
    """Fit click models to LOG, a file of pages and clicks, and say which explains it best."""
    from recurrank.logs.fit.report import fit

    if out is not None:
        output_path(out, (".json",))
    if plot is not None:
        output_path(plot, (".png", ".svg", ".pdf"))
    found = fit(log, **settings)
    if out is not None:
        found.save(out)
    if plot is not None:
        found.figure().savefig(plot, dpi=200)
    if as_json:
        wanted = ("model", "log_likelihood", "perplexity", "perplexity_by_position", "seconds")
        print_json([{name: getattr(row, name) for name in wanted} for row in found.rows])
        return
    _print(found)
    if out is not None:
        click.echo(f"{len(found.rows)} models: {out}")


def _print(found: Any) -> None:
    from rich.table import Table

    out = console()
    table = Table(
        title=f"Click models on {found.tested}", caption="behind: log-likelihood behind the first, with its standard error"
    )
    for heading in ("model", "log-likelihood", "behind", "perplexity", "parameters", "seconds"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for row in found.rows:
        behind = f"{row.behind:.5f} ± {row.error:.5f}" if row.behind else ""
        numbers = (f"{row.log_likelihood:.5f}", behind, f"{row.perplexity:.4f}", f"{row.parameters:,.0f}", f"{row.seconds:.2f}")
        table.add_row(row.model, *numbers)
    out.print(table)
    by_position = Table(title="By position: perplexity given the clicks above, and how often the position is examined")
    by_position.add_column("model")
    for k in range(len(found.rows[0].perplexity_by_position)):
        by_position.add_column(str(k + 1), justify="right")
    for row in found.rows:
        by_position.add_row(row.model, *(f"{value:.3f}" for value in row.conditional_perplexity_by_position))
        by_position.add_row("", *(f"{value:.3f}" for value in found.examination(row.model)))
    out.print(by_position)
    for name, assumptions in found.assumptions().items():
        out.print(f"{name}: {assumptions}")
    out.print(found.verdict())

"""``recurrank field``: every registered ranker on every kind of problem."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from recurrank.cli.runs import typed
from recurrank.cli.shared import console, json_option, options_of, plugin_option, print_json, progress_bar
from recurrank.experiments.field import FieldRow, families, field_rows, lost_heading, write_field
from recurrank.experiments.suite import Suite

FILE = click.Path(path_type=Path)
option, run_option = options_of(families), options_of(Suite.run)


@click.command()
@option("--quick", is_flag=True, help="Few and short runs, to see that everything works.")
@option("--families", "chosen", help="Which, separated by commas: paper, robustness, queries, requests, documents.")
@option("--rankers", help="Which, separated by commas; by default all that there are.")
@option("--runs", type=int, help="How many runs of each; by default 5, of the quick benchmark 2.")
@option("--rounds", type=int, help="The most rounds of a run; by default as many as each problem has.")
@option("--log", type=FILE, help="A log to fit click models to, or a .json file of fitted ones, for the family queries.")
@option("--train", type=FILE, help="A LETOR file, for the family documents.")
@option("--test", type=FILE, help="The LETOR file that NDCG is measured on.")
@run_option("--jobs", help="How many processes on this machine; by default one per core.")
@run_option("--engine", help="Where to run: local, or dask:ADDRESS of a Dask scheduler.")
@run_option("--out", type=FILE, help="A folder for results, reports and figures; a stopped run continues from finished rows.")
@json_option
@plugin_option
def command(chosen: str | None, jobs: int, engine: str, out: Path | None, as_json: bool, **settings: Any) -> None:
    """Run every ranker on every kind of problem: one table per family, with mean ranks.

    A ranker that raises an error is marked as failed, the others go on, and the exit code is 1.
    """
    wanted, found, before = families(families=chosen, **settings), {}, 0
    total = sum(experiment.environment.rounds for family in wanted for experiment in family.suite.experiments)
    say = Console(stderr=True, soft_wrap=True, highlight=False).print
    with progress_bar("runs", total) as bar:
        for family in wanted:
            done = partial(_progress, bar, family.name, before)
            folder = None if out is None else out / family.name
            found[family.name] = family.suite.run(
                folder, jobs=jobs, engine=engine, progress=done, say=say, command=typed(), survive=True
            )
            before += sum(experiment.environment.rounds for experiment in family.suite.experiments)
    titles = {family.name: family.title for family in wanted}
    if out is not None:
        write_field(out, found, titles, typed())
    rows = {name: field_rows(name, result) for name, result in found.items()}
    failed = [row for table in rows.values() for row in table if row.failed is not None]
    if as_json:
        print_json([row._asdict() for table in rows.values() for row in table])
    else:
        for name, table in rows.items():
            _print(titles[name], name, table)
        if out is not None:
            console().print(f"report: {out / 'field.html'}")
    for row in failed:
        say(f"{row.family}: {row.ranker} failed: {row.failed}", markup=False)
    if failed:
        raise SystemExit(1)


def _progress(bar: Any, name: str, before: int, rounds: int, runs: int) -> None:
    bar(before + rounds, f"{name}: {runs} runs")


def _print(title: str, family: str, rows: list[FieldRow]) -> None:
    from rich.table import Table

    table = Table(title=title)
    table.add_column("ranker")
    for heading in (lost_heading(family), "± s.e.", "mean rank", "seconds per run", "rounds per second"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(row.ranker, *(row.cells() if row.failed is None else ("failed", "", "", "", "")))
    console().print(table)

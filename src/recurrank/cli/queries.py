"""``recurrank queries``: rankers of documents on judged queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recurrank.cli.runs import run_suite, suite_options
from recurrank.cli.shared import console, options_of
from recurrank.experiments.queries import query_rows, suite

if TYPE_CHECKING:
    from recurrank.experiments.queries import QueryRow

FILE = click.Path(path_type=Path)
option = options_of(suite)


@click.command()
@click.argument("train", type=FILE)
@option("--test", type=FILE, help="The file that NDCG is measured on; by default TRAIN itself.")
@option("--rankers", help="Which, separated by commas, with options like pdgd:learning_rate=0.05.")
@option("--users", help="Simulated users, separated by commas: perfect, navigational, informational, position.")
@option("--impressions", help="How many queries are asked in each run.")
@option("--runs", help="How many runs of each, with different seeds.")
@option("--seed", help="Seed of the first run; later runs count up from it.")
@option("--maps", type=FILE, help="A folder for maps of the files; by default large ones have theirs beside them.")
@suite_options
def command(**settings: Any) -> None:
    """Let rankers learn from simulated users who ask the queries of TRAIN, an SVMrank (LETOR) file, plain or gzip."""
    run_suite(suite, settings, lambda found: query_rows(found.results), _print)


def _print(rows: list[QueryRow], title: str) -> None:
    from rich.table import Table

    table = Table(title=f"{title}: {rows[0].impressions:,} impressions, {rows[0].runs} runs each")
    for heading in ("users", "ranker"):
        table.add_column(heading)
    for heading in ("NDCG@10", "± s.e.", "online NDCG", "± s.e.", "clicks lost", "± s.e.", "seconds"):
        table.add_column(heading, justify="right")
    last = None
    for row in rows:
        if last not in (None, row.users):
            table.add_section()
        table.add_row(row.users if row.users != last else "", row.ranker, *row.cells())
        last = row.users
    console().print(table)

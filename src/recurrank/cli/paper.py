"""``recurrank paper``: the paper's evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import print_table, run_suite, suite_options
from recurrank.cli.shared import console, options_of
from recurrank.experiments.paper import scope, suite

option = options_of(suite)


@click.command()
@option("--environments", help="Which, separated by commas.")
@option("--rankers", help="Which, separated by commas, with options like toprank:delta=T^-1; by default the paper's three.")
@option("--runs", help="How many runs of each, with different seeds.")
@option("--rounds-scale", help="Shorten or lengthen every run by this factor.")
@option(
    "--movielens",
    type=click.Path(path_type=Path),
    help="Your copy of a MovieLens data set, or what `recurrank movielens` made of it; by default ten splits of the 1M set.",
)
@suite_options
def command(**settings: Any) -> None:
    """Repeat the paper's experiments and print the regret next to the paper's.

    Two synthetic environments of ten thousand items, 5 * 10^5 rounds under the cascade model and 5 * 10^6 under the
    position-based one, and MovieLens: a thousand movies, 2 * 10^6 rounds. Ten positions, ten runs each.
    """
    notes = [
        scope(settings["rounds_scale"]),
        "" if settings["out"] else "nothing was written; --out FOLDER keeps results and report",
    ]

    def table(rows: list[Any], title: str) -> None:
        print_table(rows, title)
        for note in filter(None, notes):
            console().print(note)

    run_suite(suite, settings, table=table)

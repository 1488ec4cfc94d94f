"""``recurrank compare``: several rankers on one problem, the user's own or a synthetic one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import run_suite, suite_options
from recurrank.cli.shared import options_of
from recurrank.experiments.compare import suite

FILE = click.Path(path_type=Path)
option = options_of(suite)


@click.command()
@option("--features", type=FILE, help="Your items: a .npy, .csv or .parquet file, one row per item; by default synthetic ones.")
@option("--attraction", type=FILE, help="Their attraction: a .npy, .csv or .parquet file, one probability per item.")
@option("--theta", type=FILE, help="Or the parameter behind it: a .npy file, one number per feature.")
@option("--rankers", help="Which, separated by commas, with options like recurrank:design=spanner.")
@option("--clicks", help="Click models, separated by commas, with parameters like position-based:examination=1/0.5/0.25.")
@option("--items", help="L of a synthetic problem.")
@option("--dim", help="d of a synthetic problem.")
@option("--positions", help="K, how many items to show.")
@option("--rounds", help="T, how many rounds to play.")
@option("--runs", help="How many runs of each, with different seeds.")
@option("--seed", help="Seed of the first run; later runs count up from it.")
@suite_options
def command(**settings: Any) -> None:
    """Compare rankers: a table, and with --out a report with regret curves.

    Without --attraction and --theta nothing is known about which items are good: then each run draws a theta at
    random, on features that are transformed as in the paper.
    """
    run_suite(suite, settings)

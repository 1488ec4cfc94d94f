"""``recurrank yandex``: rankers on click models fitted to real queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import run_suite, suite_options
from recurrank.cli.shared import options_of
from recurrank.experiments.yandex import suite

option = options_of(suite)


@click.command()
@click.argument("queries", type=click.Path(path_type=Path))
@option("--models", help="Click models, separated by commas.")
@option("--rankers", help="Which, separated by commas, with options like toprank:delta=T^-0.5.")
@option("--runs", help="How many runs of each: one query per run.")
@option("--rounds", help="T, how many rounds to play.")
@suite_options
def command(**settings: Any) -> None:
    """Run rankers on the click models in QUERIES: what recurrank fit --out wrote, or the published models of the Yandex log.

    Five positions, no features (every item has its own dimension).
    """
    run_suite(suite, settings)

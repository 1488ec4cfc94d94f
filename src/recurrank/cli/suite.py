"""``recurrank suite``: rankers in environments that are hard in different ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import run_suite, suite_options
from recurrank.cli.shared import options_of
from recurrank.experiments.robustness import suite

option = options_of(suite)


@click.command()
@option("--rankers", help="Which, separated by commas, with options like balanced:confidence=proved.")
@option("--environments", help="Which, separated by commas; by default all of them.")
@option("--runs", help="How many runs of each, with different seeds.")
@option("--rounds", type=int, help="T instead of each environment's own, to try something out.")
@option("--yandex", type=click.Path(path_type=Path), help="A file of click models fitted to real queries, to include these.")
@suite_options
def command(**settings: Any) -> None:
    """Run rankers in all environments of the robustness suite: a table, and with --out a report with regret curves."""
    run_suite(suite, settings)

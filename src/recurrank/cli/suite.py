"""``recurrank suite``: rankers in environments that are hard in different ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import run_suite, suite_options


@click.command()
@click.option(
    "--rankers",
    default="balanced,recurrank,toprank",
    show_default=True,
    help="Which, separated by commas, with options like balanced:confidence=proved.",
)
@click.option("--environments", help="Which, separated by commas; by default all of them.")
@click.option("--runs", default=5, show_default=True, help="How many runs of each, with different seeds.")
@click.option("--rounds", type=int, help="T instead of each environment's own, to try something out.")
@click.option(
    "--yandex", type=click.Path(path_type=Path), help="A file of click models fitted to real queries, to include these."
)
@suite_options
def command(rankers: str, environments: str | None, runs: int, rounds: int | None, yandex: Path | None, **running: Any) -> None:
    """Run rankers in all environments of the robustness suite: a table, and with --out a report with regret curves."""
    from recurrank.experiments import robustness
    from recurrank.experiments.report import Report

    experiments = robustness.plan(rankers, environments, runs, rounds, yandex)
    lead = "Environments that are hard in different ways: docs/balanced.md says how, and who wins where."
    run_suite(experiments, Report("The robustness suite", lead, log=robustness.LOGARITHMIC), **running)

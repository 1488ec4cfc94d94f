"""``recurrank yandex``: rankers on click models fitted to real queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import run_suite, suite_options


@click.command()
@click.argument("queries", type=click.Path(path_type=Path))
@click.option("--models", default="PBM,CM,DCM,DBN,CCM,UBM", show_default=True, help="Click models, separated by commas.")
@click.option(
    "--rankers",
    default="recurrank,toprank,batchrank,cascade-klucb,random",
    show_default=True,
    help="Which, separated by commas, with options like toprank:delta=T^-0.5.",
)
@click.option("--runs", default=30, show_default=True, help="How many runs of each: one query per run.")
@click.option("--rounds", default=200_000, show_default=True, help="T, how many rounds to play.")
@suite_options
def command(queries: Path, models: str, rankers: str, runs: int, rounds: int, **running: Any) -> None:
    """Run rankers on the click models in QUERIES, a JSON file of models fitted to the queries of the Yandex log.

    Five positions, no features (every item has its own dimension).
    """
    from recurrank.experiments import yandex
    from recurrank.experiments.report import Report

    experiments = yandex.plan(queries, models, rankers, runs, rounds)
    lead = (
        "Click models fitted to real web-search queries, ten documents each, five of them shown. "
        "A run is a query; the items have no features, so that RecurRank works with d = L."
    )
    report = Report("Rankers on click behaviour from the Yandex log", lead, log=yandex.MODELS)
    run_suite(experiments, report, **running)

"""``recurrank compare``: several rankers on one problem, the user's own or a synthetic one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import run_suite, suite_options

FILE = click.Path(path_type=Path)


@click.command()
@click.option(
    "--features", type=FILE, help="Your items: a .npy, .csv or .parquet file, one row per item. Default: a synthetic problem."
)
@click.option("--attraction", type=FILE, help="Their attraction: a .npy, .csv or .parquet file, one probability per item.")
@click.option("--theta", type=FILE, help="Or the parameter behind it: a .npy file, one number per feature.")
@click.option(
    "--rankers",
    default="recurrank,cascade-linucb,toprank,epsilon-greedy,random",
    show_default=True,
    help="Which, separated by commas, with options like recurrank:design=spanner.",
)
@click.option(
    "--clicks",
    default="position-based",
    show_default=True,
    help="Click models, separated by commas, with parameters like position-based:examination=1/0.5/0.25.",
)
@click.option("--items", default=1000, show_default=True, help="L of a synthetic problem.")
@click.option("--dim", default=5, show_default=True, help="d of a synthetic problem.")
@click.option("--positions", default=10, show_default=True, help="K, how many items to show.")
@click.option("--rounds", default=1_000_000, show_default=True, help="T, how many rounds to play.")
@click.option("--runs", default=5, show_default=True, help="How many runs of each, with different seeds.")
@click.option("--seed", default=0, show_default=True, help="Of the first run; the next ones count up.")
@suite_options
def command(features: Path | None, attraction: Path | None, theta: Path | None, **settings: Any) -> None:
    """Compare rankers: a table, and with --out a report with regret curves.

    Without --attraction and --theta nothing is known about which items are good: then each run draws a theta at
    random, on features that are transformed as in the paper.
    """
    from recurrank.experiments import compare
    from recurrank.experiments.report import Report

    running = {name: settings.pop(name) for name in ("jobs", "engine", "out", "bound", "as_json")}
    experiments = compare.plan(features=features, attraction=attraction, theta=theta, **settings)
    source = experiments[0].environment.source
    truth = source.truth if isinstance(source, compare.Own) else "Synthetic problems as in the paper, a new one each run"
    run_suite(experiments, Report("Rankers compared", f"{truth[0].upper()}{truth[1:]}."), **running)

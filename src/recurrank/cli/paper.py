"""``recurrank paper``: the paper's evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import run_suite, suite_options


@click.command()
@click.option("--environments", default="cascade,position,movielens", show_default=True, help="Which, separated by commas.")
@click.option(
    "--rankers",
    help="Which, separated by commas, with options like recurrank:design=spanner; by default the paper's three.",
)
@click.option("--runs", default=10, show_default=True, help="How many runs of each, with different seeds.")
@click.option("--rounds-scale", default=1.0, show_default=True, help="Shorten or lengthen every run by this factor.")
@click.option(
    "--movielens",
    type=click.Path(path_type=Path),
    help="Your copy of a MovieLens data set, or what `recurrank movielens` made of it; by default ten splits of the 1M set.",
)
@suite_options
def command(
    environments: str, rankers: str | None, runs: int, rounds_scale: float, movielens: Path | None, **running: Any
) -> None:
    """Repeat the paper's experiments and print the regret next to the paper's.

    Two synthetic environments of ten thousand items, 5 * 10^5 rounds under the cascade model and 5 * 10^6 under the
    position-based one, and MovieLens: a thousand movies, 2 * 10^6 rounds. Ten positions, ten runs each.
    """
    from recurrank.experiments import paper
    from recurrank.experiments.movielens import open_movielens

    prepared = None if movielens is None else open_movielens(movielens)
    experiments = paper.plan(environments, rankers, runs, rounds_scale, prepared)
    run_suite(experiments, paper.report(), **running)

"""``recurrank suite``: rankers in environments that are hard in different ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.runs import run_suite, suite_options
from recurrank.cli.shared import options_of
from recurrank.experiments import requests
from recurrank.experiments.robustness import suite

option, of_requests = options_of(suite), options_of(requests.suite)


@click.command()
@click.argument("which", type=click.Choice(["robustness", "requests"]), default="robustness")
@option("--rankers", help="Which, separated by commas, with options like balanced:confidence=proved.")
@option("--environments", help="Which, separated by commas; by default all of them.")
@option("--runs", help="How many runs of each, with different seeds.")
@option("--rounds", type=int, help="T instead of each environment's own, to try something out.")
@option("--yandex", type=click.Path(path_type=Path), help="A file of click models fitted to real queries, to include these.")
@of_requests("--movielens", type=click.Path(path_type=Path), help="A MovieLens data set, to include its users as visitors.")
@suite_options
def command(**settings: Any) -> None:
    """Run rankers in all environments of a suite: a table, and with --out a report with regret curves.

    The robustness suite has one catalogue for everybody; in the requests suite every visitor has candidates of their own.
    """
    if settings.pop("which") == "robustness":
        if settings.pop("movielens") is not None:
            raise ValueError("movielens: the robustness suite has no such environment; leave it out")
        run_suite(suite, settings)
        return
    if settings.pop("yandex") is not None:
        raise ValueError("yandex: the requests suite has no such environment; leave it out")
    if click.get_current_context().get_parameter_source("rankers") is click.core.ParameterSource.DEFAULT:
        settings["rankers"] = requests.RANKERS
    run_suite(requests.suite, settings)

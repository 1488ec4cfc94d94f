"""Code shared by the commands that run many experiments: options, resuming, the report, the table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

from recurrank.cli.shared import console, json_option, options_of, plugin_option, print_json, progress_bar

if TYPE_CHECKING:
    from recurrank.experiments.suite import Suite
    from recurrank.experiments.summary import Row

F = TypeVar("F", bound=Callable[..., Any])


def suite_options(function: F) -> F:
    """The options of running a suite and of its results."""
    from recurrank.experiments.suite import Suite

    option = options_of(Suite.run)
    for added in (
        plugin_option,
        json_option,
        option("--bound", is_flag=True, help="Draw Theorem 1's bound into the figures (the page has it on a click)."),
        option(
            "--out",
            type=click.Path(path_type=Path),
            help="A folder for results, report and figures; a stopped run continues from the finished rows.",
        ),
        option("--engine", help="Where to run: local, or dask:ADDRESS of a Dask scheduler."),
        option("--jobs", help="How many processes on this machine; by default one per core."),
    ):
        function = added(function)
    return function


def typed() -> str:
    """The command line that the user typed."""
    return shlex.join(["recurrank", *sys.argv[1:]])


def run_suite(
    make: Callable[..., Suite],
    settings: dict[str, Any],
    rows: Callable[[Any], list[Any]] = lambda found: found.rows,
    table: Callable[[list[Any], str], None] | None = None,
) -> None:
    """Make a suite from a command's settings, run it and print its table: ``rows`` of its results, printed by ``table``."""
    table = print_table if table is None else table
    running = {name: settings.pop(name) for name in ("jobs", "engine", "bound")}
    out, as_json = settings.pop("out"), settings.pop("as_json")
    suite = make(**settings)
    count = len(suite.experiments)

    def title(runs: int) -> str:
        return f"{runs:,} of {count:,} runs" if runs else f"{count:,} runs, the first ones compile"

    say = Console(stderr=True, soft_wrap=True, highlight=False).print
    with progress_bar("runs", sum(experiment.environment.rounds for experiment in suite.experiments)) as bar:
        found = suite.run(out, progress=lambda rounds, runs: bar(rounds, title(runs)), say=say, command=typed(), **running)
    if as_json:
        print_json([row._asdict() for row in rows(found)])
        return
    table(rows(found), suite.report.title)
    if out is not None:
        console().print(f"report: {out / 'report.html'}")


def print_table(rows: list[Row], title: str) -> None:
    """Print regret and time, and published numbers where they exist."""
    from rich.table import Table

    from recurrank.experiments.report import number, warnings

    published = any(row.paper_regret is not None for row in rows)
    runs = sorted({row.runs for row in rows})
    table = Table(title=f"{title}: {' or '.join(map(str, runs))} run{'s' if runs != [1] else ''} each")
    for heading in ("environment", "ranker"):
        table.add_column(heading)
    for heading in (
        "rounds",
        "regret",
        "± s.e.",
        *(["paper's"] if published else []),
        "seconds",
        *(["paper's"] if published else []),
    ):
        table.add_column(heading, justify="right")
    last = None
    for row in rows:
        if last not in (None, row.environment):
            table.add_section()
        cells = [f"{row.rounds:,}", number(row.regret_mean), number(row.regret_se)]
        cells += [number(row.paper_regret)] if published else []
        cells += [f"{row.seconds_mean:.2f}"]
        cells += [number(row.paper_seconds)] if published else []
        table.add_row(row.environment if row.environment != last else "", row.ranker, *cells)
        last = row.environment
    console().print(table)
    for line in warnings(rows):
        console().print(line)

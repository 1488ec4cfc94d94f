"""What the commands that run many experiments share: their options, going on after a stop, the report, the table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

from recurrank.cli.shared import console, json_option, plugin_option, print_json, progress_bar

if TYPE_CHECKING:
    from recurrank.experiments.experiment import Experiment
    from recurrank.experiments.report import Report
    from recurrank.experiments.summary import Row

F = TypeVar("F", bound=Callable[..., Any])


def suite_options(function: F) -> F:
    """How to run, and what to do with the results."""
    for option in (
        plugin_option,
        json_option,
        click.option("--bound", is_flag=True, help="Draw Theorem 1's bound into the figures (the page has it on a click)."),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            help="A folder for results, report and figures; a stopped run goes on from what is there.",
        ),
        click.option(
            "--engine", default="local", show_default=True, help="Where to run: local, or dask:ADDRESS of a Dask scheduler."
        ),
        click.option("--jobs", default=-1, help="How many processes on this machine; by default one a core."),
    ):
        function = option(function)
    return function


def run_suite(
    experiments: list[Experiment], report: Report, *, jobs: int, engine: str, out: Path | None, bound: bool, as_json: bool
) -> None:
    """Run what is not finished, write the report, print the table."""
    from recurrank.experiments.results import ResultsFile
    from recurrank.experiments.runner import run
    from recurrank.experiments.summary import summary

    say = Console(stderr=True, soft_wrap=True, highlight=False).print
    if out is not None:
        _needs_plotly()
    total = sum(experiment.environment.rounds for experiment in experiments)

    def title(runs: int) -> str:
        return f"{runs:,} of {len(experiments):,} runs" if runs else f"{len(experiments):,} runs, the first ones compile"

    with nullcontext() if out is None else ResultsFile(out) as file:
        if file is not None and file.outdated:
            say(f"{file.path}: {file.outdated} rows of another version of recurrank; they are run again")
        before = 0 if file is None else sum(file.finished(experiment) is not None for experiment in experiments)
        if before:
            say(f"{before} of {len(experiments)} runs were finished before, in {out}; delete it to run them again")
        try:
            with progress_bar("runs", total) as bar:
                results = run(experiments, jobs, engine, file, lambda rounds, runs: bar(rounds, title(runs)))
        except KeyboardInterrupt:
            if file is not None:
                done = sum(file.finished(experiment) is not None for experiment in experiments)
                say(f"{done} of {len(experiments)} runs are finished and kept in {out}; the same command goes on from there")
            raise
        if out is not None and file is not None:
            from recurrank.experiments.report import write_report

            written = write_report(out, results, replace(report, bound=bound, elapsed=file.seconds))
    rows = summary(results, report.published)
    if as_json:
        print_json([row._asdict() for row in rows])
        return
    print_table(rows, report.title)
    if out is not None:
        console().print(f"report: {written[-1]}")


def print_table(rows: list[Row], title: str) -> None:
    """Regret and time, published numbers beside ours where there are any."""
    from rich.table import Table

    from recurrank.experiments.report import number, warnings

    theirs = any(row.paper_regret is not None for row in rows)
    runs = sorted({row.runs for row in rows})
    table = Table(title=f"{title}: {' or '.join(map(str, runs))} run{'s' if runs != [1] else ''} each")
    for heading in ("environment", "ranker"):
        table.add_column(heading)
    for heading in (
        "rounds",
        "regret",
        "± s.e.",
        *(["paper's"] if theirs else []),
        "seconds",
        *(["paper's"] if theirs else []),
    ):
        table.add_column(heading, justify="right")
    last = None
    for row in rows:
        if last not in (None, row.environment):
            table.add_section()
        cells = [f"{row.rounds:,}", number(row.regret_mean), number(row.regret_se)]
        cells += [number(row.paper_regret)] if theirs else []
        cells += [f"{row.seconds_mean:.2f}"]
        cells += [number(row.paper_seconds)] if theirs else []
        table.add_row(row.environment if row.environment != last else "", row.ranker, *cells)
        last = row.environment
    console().print(table)
    for line in warnings(rows):
        console().print(line)


def _needs_plotly() -> None:
    try:
        import plotly  # noqa: F401
    except ImportError as error:
        raise ValueError("--out: the report needs plotly and pyarrow; install recurrank[report]") from error

"""``recurrank paper``: the paper's experiments."""

from __future__ import annotations

from pathlib import Path

import click

from recurrank.cli.shared import console, json_option, print_json, progress_bar


@click.command()
@click.option("--environments", default="cascade,position", show_default=True, help="Which, separated by commas.")
@click.option("--rankers", default="recurrank", show_default=True, help="Which, separated by commas.")
@click.option("--runs", default=10, show_default=True, help="How many runs of each, with different seeds.")
@click.option("--rounds-scale", default=1.0, show_default=True, help="Shorten or lengthen every run by this factor.")
@click.option("--jobs", default=-1, help="How many processes; by default one a core.")
@click.option("--out", type=click.Path(path_type=Path), help="A folder for the regret curves (regret.png).")
@json_option
def command(
    environments: str, rankers: str, runs: int, rounds_scale: float, jobs: int, out: Path | None, as_json: bool
) -> None:
    """Run the paper's synthetic experiments and print the regret next to the paper's.

    Ten thousand items in five dimensions, ten positions, ten runs: 5 * 10^5 rounds of the cascade model, 5 * 10^6 of the
    position-based one. MovieLens is not part of it yet.
    """
    from recurrank.experiments import paper

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    experiments = paper.plan(_split(environments), _split(rankers), runs, rounds_scale)
    with progress_bar("experiments", len(experiments)) as progress:
        results = paper.run(experiments, jobs, progress)
    rows = paper.summary(results)
    if out is not None:
        from recurrank.experiments.figures import draw_curves

        draw_curves(paper.curves(results), out / "regret.png", log=("cascade",))
    if as_json:
        print_json([row._asdict() for row in rows])
        return
    from rich.table import Table

    table = Table(title=f"Online Learning to Rank with Features: {runs} runs each")
    for heading in (
        "environment",
        "ranker",
        "rounds",
        "regret (standard error)",
        "paper's regret",
        "seconds a run",
        "paper's seconds",
    ):
        table.add_column(heading, justify="left" if heading in ("environment", "ranker") else "right")
    for row in rows:
        regret = f"{row.regret_mean:,.2f} ({row.regret_se:,.2f})"
        table.add_row(
            row.environment,
            row.ranker,
            f"{row.rounds:,}",
            regret,
            _number(row.paper_regret),
            f"{row.seconds_mean:.2f}",
            _number(row.paper_seconds),
        )
    console().print(table)
    if out is not None:
        console().print(f"regret curves: {out / 'regret.png'}")


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"

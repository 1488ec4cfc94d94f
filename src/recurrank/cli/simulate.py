"""``recurrank simulate``: one ranker against simulated users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.shared import (
    console,
    json_option,
    output_path,
    parse_options,
    plugin_option,
    print_json,
    problem_options,
    progress_bar,
    set_up,
)
from recurrank.rankers import DEFAULT


@click.command()
@click.option("--ranker", default=DEFAULT, show_default=True, help="An algorithm: see `recurrank rankers`.")
@problem_options(items=10_000, dim=5, positions=10, rounds=1_000_000)
@click.option("--option", "pairs", multiple=True, metavar="NAME=VALUE", help="An option of the ranker; may be repeated.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the regret curve into this .png, .svg or .pdf.")
@json_option
@plugin_option
def command(pairs: tuple[str, ...], plot: Path | None, as_json: bool, **settings: Any) -> None:
    """Play ROUNDS rounds of a synthetic problem as in the paper, and print regret and clicks.

    Regret is in expectation: the expected clicks of the best ranking less those of what was shown.
    """
    from recurrank.simulation import simulate

    if plot is not None:
        output_path(plot, (".png", ".svg", ".pdf"))
    setup = set_up(**settings, options=parse_options(pairs))
    with progress_bar(f"{settings['ranker']}, {settings['clicks']}", settings["rounds"]) as progress:
        run = simulate(setup.ranker, setup.model, settings["rounds"], settings["seed"], progress=progress)
    if plot is not None:
        from recurrank.experiments.figures import draw_curves
        from recurrank.experiments.summary import Curve

        draw_curves({settings["clicks"]: [Curve(settings["ranker"], run.rounds, run.regret, None)]}, plot)
    if as_json:
        print_json(
            {
                **settings,
                "regret": float(run.regret[-1]),
                "clicks_total": int(run.clicks[-1]),
                "seconds": run.seconds,
                "optimum": run.optimum,
                "checkpoints": [[int(t), float(r)] for t, r in zip(run.rounds, run.regret, strict=True)],
            }
        )
        return
    _print(settings, run, float(setup.model.optimum(settings["positions"]).expected.sum()))


def _print(settings: dict[str, Any], run: Any, best: float) -> None:
    from rich.table import Table

    from recurrank.clicks.optimum import EXACT, WARNING

    out = console()
    table = Table(title=f"{settings['ranker']} on {settings['items']:,} items, {settings['clicks']} clicks")
    for heading in ("round", "regret", "regret per round since the line above", "clicks per round"):
        table.add_column(heading, justify="right")
    rows = [i for i in range(len(run.rounds)) if i == len(run.rounds) - 1 or (len(run.rounds) - 1 - i) % 11 == 0]
    last_t, last_r = 0, 0.0
    for i in rows:
        t, r = int(run.rounds[i]), float(run.regret[i])
        table.add_row(f"{t:,}", f"{r:,.2f}", f"{(r - last_r) / (t - last_t):.5f}", f"{run.clicks[i] / t:.4f}")
        last_t, last_r = t, r
    out.print(table)
    rounds = int(run.rounds[-1])
    out.print(
        f"best ranking: {best:.4f} clicks per round in expectation; "
        f"{run.seconds:.2f} s, {run.seconds / rounds * 1e9:.0f} ns per round (compilation not counted)"
    )
    if run.optimum != EXACT:
        out.print(WARNING)

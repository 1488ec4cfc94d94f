"""``recurrank trace``: the paper's Figure 1 from a real run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from recurrank.cli.shared import (
    console,
    json_option,
    output_path,
    parse_options,
    print_json,
    problem_options,
    progress_bar,
    set_up,
)


@click.command()
@problem_options(items=12, dim=5, positions=8, rounds=1_000_000, clicks="document-based")
@click.option("--option", "pairs", multiple=True, metavar="NAME=VALUE", help="An option of RecurRank; may be repeated.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("trace.svg"), show_default=True, help="An .svg, .png or .pdf."
)
@json_option
def command(pairs: tuple[str, ...], out: Path, as_json: bool, **settings: Any) -> None:
    """Run RecurRank and draw its blocks: which positions, which phase, how many items, when they opened, and how they split."""
    from recurrank.experiments.flow import draw_flow, flow_of
    from recurrank.simulation import simulate

    output_path(out, (".svg", ".png", ".pdf"))
    setup = set_up(ranker="recurrank", **settings, options=parse_options(pairs))
    with progress_bar("recurrank", settings["rounds"]) as progress:
        simulate(setup.ranker, setup.model, settings["rounds"], settings["seed"], progress=progress)
    flow = flow_of(setup.ranker)
    draw_flow(flow, setup.ranker.positions, setup.ranker.served, out)
    if as_json:
        print_json({**settings, "blocks": [box._asdict() for box in flow], "out": str(out)})
    else:
        console().print(f"{len(flow)} blocks in {settings['rounds']:,} rounds: {out}")

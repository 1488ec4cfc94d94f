"""``recurrank design``: where to explore a catalogue."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from recurrank.cli.shared import console, json_option, print_json


@click.command()
@click.argument("features", type=click.Path(path_type=Path))
@click.option(
    "--tolerance", default=0.05, show_default=True, help="How far above the rank the largest leverage may be, relative."
)
@click.option("--spanner", is_flag=True, help="A volumetric spanner instead of a G-optimal design.")
@json_option
def command(features: Path, tolerance: float, spanner: bool, as_json: bool) -> None:
    """Find a design on the rows of FEATURES, a .npy or .parquet file with a row an item."""
    from recurrank.design.files import read_features
    from recurrank.design.optimal import g_optimal
    from recurrank.design.spanner import volumetric_spanner

    matrix = read_features(features)
    began = time.perf_counter()
    design = volumetric_spanner(matrix) if spanner else g_optimal(matrix, tolerance)
    seconds = time.perf_counter() - began
    facts: dict[str, Any] = {
        "items": int(matrix.shape[0]),
        "dim": int(matrix.shape[1]),
        "rank": design.rank,
        "value": design.value,
        "scans": design.scans,
        "seconds": seconds,
    }
    if as_json:
        print_json({**facts, "support": design.support.tolist(), "weights": design.weights.tolist()})
        return
    out = console()
    out.print(
        f"{facts['items']:,} items of {facts['dim']} features, rank {design.rank}: explore {len(design.support)} of them\n"
        f"largest leverage {design.value:.4f} (the least possible is {design.rank}); "
        f"{design.scans} scans of the catalogue, {seconds:.2f} s"
    )
    from rich.table import Table

    table = Table()
    table.add_column("item", justify="right")
    table.add_column("weight", justify="right")
    order = (-design.weights).argsort(kind="stable")
    for i in order[:15]:
        table.add_row(f"{design.support[i]:,}", f"{design.weights[i]:.4f}")
    if len(order) > 15:
        table.add_row("...", f"and {len(order) - 15} more (--json has all)")
    out.print(table)

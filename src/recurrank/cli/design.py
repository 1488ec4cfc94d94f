"""``recurrank design``: where to explore a catalogue."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from recurrank.cli.shared import console, json_option, print_json, progress_bar


@click.command()
@click.argument("features", nargs=-1, required=True)
@click.option(
    "--tolerance", default=0.05, show_default=True, help="How far the largest leverage may exceed the rank, relative to it."
)
@click.option("--spanner", is_flag=True, help="A volumetric spanner instead of a G-optimal design.")
@click.option("--column", help="For Parquet: the column of lists with the features; by default the only one.")
@click.option("--ids", help="For Parquet: the column with the items' ids; by default `id` if there is one.")
@click.option("--dim", type=int, help="For a file of float32 numbers alone: how many features a row has.")
@click.option("--map", "to", type=click.Path(path_type=Path), help="Where to keep the map of Parquet, if not beside it.")
@click.option(
    "--engine", default="local", show_default=True, help="local, or dask:ADDRESS: Parquet read by a cluster's workers."
)
@json_option
def command(
    features: tuple[str, ...],
    tolerance: float,
    spanner: bool,
    column: str | None,
    ids: str | None,
    dim: int | None,
    to: Path | None,
    engine: str,
    as_json: bool,
) -> None:
    """Find a design on the rows of FEATURES: a .npy file, or Parquet files, a folder or a pattern, with one row per item.

    Parquet is converted once to a map beside it, which is read from then on; on a cluster the workers read it as it is.
    """
    from recurrank._dask import address_of
    from recurrank.catalogue import Catalogue
    from recurrank.design.optimal import as_tolerance, g_optimal
    from recurrank.design.spanner import volumetric_spanner

    address, tolerance = address_of(engine), as_tolerance(tolerance)
    if to is not None and address is not None:
        raise ValueError("map: a cluster's workers read Parquet as it is; leave out --map, or --engine")
    where = features[0] if len(features) == 1 else list(features)
    names: Any = None
    if address is not None:
        if spanner:
            raise ValueError("spanner: only G-optimal designs are found on a cluster; leave out --spanner, or --engine")
        items, width, design, seconds = _clustered(address, where, column, ids, tolerance)
    else:
        with progress_bar("converting to a map", 1) as bar:
            progress = _share(bar)
            catalogue = Catalogue.open(where, features=column, ids=ids, dim=dim, to=to, progress=progress)
        items, width, names = len(catalogue), catalogue.dim, catalogue.ids
        began = time.perf_counter()
        design = volumetric_spanner(catalogue.features) if spanner else g_optimal(catalogue.features, tolerance)
        seconds = time.perf_counter() - began
    _print(items, width, design, seconds, names, as_json)


def _clustered(address: str, where: Any, column: str | None, ids: str | None, tolerance: float) -> tuple[int, int, Any, float]:
    from recurrank.catalogue.cluster import on_cluster
    from recurrank.catalogue.parquet import Dataset
    from recurrank.design.optimal import optimal_design

    dataset = Dataset(where, column, ids)
    with progress_bar("a pass", 1) as bar, on_cluster(dataset, address, _share(bar)) as source:
        began = time.perf_counter()
        design = optimal_design(source, tolerance)
        return len(source), source.dim, design, time.perf_counter() - began


def _share(bar: Callable[..., None]) -> Callable[[int, int], None]:
    return lambda done, whole: bar(done / whole)


def _print(items: int, dim: int, design: Any, seconds: float, names: Any, as_json: bool) -> None:
    facts: dict[str, Any] = {
        "items": items,
        "dim": dim,
        "rank": design.rank,
        "value": design.value,
        "scans": design.scans,
        "seconds": seconds,
    }
    if as_json:
        ids = {} if names is None else {"ids": [names[int(item)] for item in design.support]}
        print_json({**facts, "support": design.support.tolist(), "weights": design.weights.tolist(), **ids})
        return
    out = console()
    out.print(
        f"{items:,} items of {dim} features, rank {design.rank}: explore {len(design.support)} of them\n"
        f"largest leverage {design.value:.4f} (the least possible is {design.rank}); "
        f"{design.scans} scans of the catalogue, {seconds:.2f} s"
    )
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    table.add_column("item", justify="right")
    table.add_column("weight", justify="right")
    order = (-design.weights).argsort(kind="stable")
    for i in order[:15]:
        item = int(design.support[i])
        table.add_row(f"{item:,}" if names is None else escape(names[item]), f"{design.weights[i]:.4f}")
    if len(order) > 15:
        table.add_row("...", f"and {len(order) - 15} more (--json has all)")
    out.print(table)

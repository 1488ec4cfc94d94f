"""Catalogues of millions on one machine: each part's cost against a plain pass over the same map, and its growth.

Writes the curves to docs/img/scale.png and docs/scale.json. It needs 6 GB on disk and takes about five minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import recurrank as rr
from benchmarks.measure import Figure, at_most, seconds
from recurrank.simulation.loop import Simulation

ITEMS, DIM, POSITIONS, ROUNDS, TOLERANCE = 10_000_000, 32, 50, 1_000_000, 0.1
DOCS = Path(__file__).parents[1] / "docs"

MEMORY = """
import re, sys, threading, time
import numpy as np, recurrank as rr
def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) * 1024
rr.RecurRank(np.random.default_rng(0).standard_normal((1000, 4)), positions=5, rounds=100)
before, peak, stop = anonymous(), [0], []
def watch():
    while not stop:
        peak[0] = max(peak[0], anonymous()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
rr.RecurRank(np.load(sys.argv[1], mmap_mode="r")[: int(sys.argv[2])], positions=50, rounds=10**6, seed=0, tolerance=0.1)
stop.append(1); thread.join()
print(peak[0] - before)
"""


def make_map(path: Path, items: int, dim: int) -> np.ndarray[Any, Any]:
    """Items of length 1 in random directions, the hardest common case: no few rows stand out."""
    features = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(items, dim))
    rng = np.random.default_rng(0)
    for start in range(0, items, 100_000):
        rows = rng.standard_normal((min(100_000, items - start), dim), dtype=np.float32)
        features[start : start + len(rows)] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    features.flush()
    mapped: np.ndarray[Any, Any] = np.load(path, mmap_mode="r")
    return mapped


def plain_scan(features: np.ndarray[Any, Any], block: int = 8192) -> None:
    """Leverages as one would write them with NumPy, in single precision."""
    whitening, lever = np.eye(features.shape[1], dtype=np.float32), np.empty(len(features))
    for start in range(0, len(features), block):
        image = features[start : start + block] @ whitening
        lever[start : start + block] = (image * image).sum(axis=1)


def first_block(features: Any, positions: int = POSITIONS) -> rr.RecurRank:
    return rr.RecurRank(features, positions=positions, rounds=ROUNDS, seed=0, tolerance=TOLERANCE)


def end_of_block(ranker: rr.RecurRank) -> Callable[[], object]:
    """A function that ends a first block with made-up clicks: estimate, order, eliminate and cut."""
    block = ranker.blocks[0]
    clicks = np.random.default_rng(0).binomial(block.visits, 0.3)
    return lambda: ranker._judge(block, clicks)


def model_of(features: np.ndarray[Any, Any], positions: int = POSITIONS) -> rr.clicks.PositionBased:
    theta = np.random.default_rng(1).standard_normal(features.shape[1])
    products = features @ (theta / np.linalg.norm(theta)).astype(np.float32)
    return rr.clicks.PositionBased(np.clip(0.5 + products / 2, 0, 1), 1 / np.arange(1, positions + 1))


def play(features: np.ndarray[Any, Any], rounds: int, positions: int = POSITIONS) -> tuple[float, float, rr.RecurRank]:
    """A whole simulation: seconds in rounds, seconds in decisions, and the ranker."""
    ranker = first_block(rr.Catalogue(features), positions)
    simulation = Simulation(ranker, model_of(features, positions), 0)
    simulation.prepare()
    deciding, plan = 0.0, ranker.plan

    def timed() -> None:
        nonlocal deciding
        began = time.perf_counter()
        plan()
        deciding += time.perf_counter() - began

    ranker.plan = timed  # type: ignore[method-assign]
    began = time.perf_counter()
    while simulation.round < rounds:
        simulation.advance(rounds)
    return time.perf_counter() - began - deciding, deciding, ranker


def parquet(features: np.ndarray[Any, Any], path: Path, listed: bool) -> tuple[float, float]:
    """Seconds to convert a Parquet file, and for pyarrow to read it."""
    import shutil

    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for start in range(0, len(features), 500_000):
        rows = np.ascontiguousarray(features[start : start + 500_000])
        ids = pa.array([f"item-{row}" for row in range(start, start + len(rows))])
        lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1]).cast(pa.list_(pa.float32()))
        columns = {"embedding": lists} if listed else {f"f{j}": rows[:, j] for j in range(rows.shape[1])}
        table = pa.table({"id": ids, **columns})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd" if listed else "snappy")
        writer.write_table(table)
    assert writer is not None
    writer.close()
    folder = path.with_name(path.name + ".map")
    times: list[tuple[float, float]] = []
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        convert = seconds(lambda: rr.Catalogue.open(path), repeat=1)
        times.append((convert, seconds(lambda: pq.read_table(path), repeat=1)))
    shutil.rmtree(folder)
    path.unlink()
    return min(convert for convert, _ in times), min(read for _, read in times)


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        features = make_map(Path(folder) / "features.npy", ITEMS, DIM)
        rr.Catalogue(features)  # compiles, and warms up the map
        figures = _block(features, Path(folder)) + _rounds(features) + _files(features, Path(folder))
        curves(features, Path(folder))
    return figures


def _block(features: np.ndarray[Any, Any], folder: Path) -> list[Figure]:
    plain_scan(features)
    few = features[:100_000]
    scan = seconds(lambda: plain_scan(features))
    opening, small = seconds(lambda: first_block(features)), seconds(lambda: first_block(few), repeat=5)
    ranker = first_block(rr.Catalogue(features))
    theta = np.random.default_rng(0).standard_normal(DIM).astype(np.float32)
    np.asarray(features @ theta)
    product, ending = seconds(lambda: np.asarray(features @ theta), repeat=5), seconds(end_of_block(ranker), repeat=5)
    command = [sys.executable, "-c", MEMORY, str(folder / "features.npy"), str(ITEMS)]
    memory = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    growth = (opening / ITEMS) / (small / len(few))
    design = rr.g_optimal(features, TOLERANCE)
    detail = (
        f"{opening:.2f} s against {scan:.2f} s, from a warm map; leverage {design.value:.1f} of {DIM}, {design.scans} passes"
    )
    return [
        at_most("first block, L = 10^7, d = 32: time over one NumPy scan", opening / scan, 12, "x", detail),
        at_most("its peak memory beyond the map", memory / 1e9, 2, "GB", "anonymous memory of the process"),
        at_most("cost an item at 10^7 over that at 10^5", growth, 1.3, "x", f"{small * 1e3:.0f} ms at 10^5"),
        at_most("end of that block over one X @ theta", ending / product, 6, "x", f"{ending:.2f} s against {product:.2f} s"),
    ]


def _rounds(features: np.ndarray[Any, Any]) -> list[Figure]:
    small, large = (_fourth_phase(features[:items]) for items in (10_000, ITEMS))
    rounds = [(_stretch(small), _stretch(large)) for _ in range(8)]  # by turns, under the same load of the machine
    few, many = min(short for short, _ in rounds), min(long for _, long in rounds)
    _, deciding, ranker = play(features, ROUNDS)
    saving = seconds(ranker.save, repeat=1)
    blob = ranker.save()
    loading = seconds(lambda: rr.load(blob, rr.Catalogue(features)), repeat=1)
    detail = f"{many:.0f} against {few:.0f} ns; in 10^6 rounds {len(ranker.history)} decisions take {deciding:.1f} s"
    return [
        at_most("a round at L = 10^7 over one at 10^4, K = 50", many / few, 1.2, "x", detail),
        at_most("save at L = 10^7", saving, 2, "s", f"with the map's fingerprint; {len(blob):,} bytes"),
        at_most("load at L = 10^7", loading, 2, "s", "with opening the map and its fingerprint"),
    ]


def _fourth_phase(features: np.ndarray[Any, Any]) -> Simulation:
    ranker = first_block(rr.Catalogue(features))
    simulation = Simulation(ranker, model_of(features), 0)
    simulation.prepare()
    while len(ranker.history) < 3:
        simulation.advance(ROUNDS)
    return simulation


def _stretch(simulation: Simulation) -> float:
    """Nanoseconds per round."""
    before, began = simulation.round, time.perf_counter()
    simulation.advance(before + 8000)
    return (time.perf_counter() - began) / (simulation.round - before) * 1e9


def _files(features: np.ndarray[Any, Any], folder: Path) -> list[Figure]:
    figures = []
    for name, listed in (("lists, zstd", True), ("columns, snappy", False)):
        convert, read = parquet(features, folder / "items.parquet", listed)
        detail = f"{convert:.1f} s against {read:.1f} s"
        figures.append(at_most(f"Parquet ({name}) to map over pyarrow's reading", convert / read, 2, "x", detail))
    return figures


def curves(features: np.ndarray[Any, Any], folder: Path) -> None:
    """The growth of each part's cost, as numbers and as a figure."""
    found: dict[str, dict[str, dict[str, float]]] = {"L": {}, "d": {}, "K": {}, "T": {}}
    for items in (10_000, 100_000, 1_000_000, ITEMS):
        found["L"][str(items)] = _costs(features[:items])
    for dim in (8, 16, 32, 64, 128):
        other = make_map(folder / f"{dim}.npy", 1_000_000, dim)
        found["d"][str(dim)] = _costs(other)
        (folder / f"{dim}.npy").unlink()
    for positions in (5, 10, 50, 200):
        found["K"][str(positions)] = _costs(features[:1_000_000], positions)
    for rounds in (10_000, 100_000, 1_000_000, 10_000_000):
        playing, deciding, _ = play(features[:1_000_000], rounds)
        found["T"][str(rounds)] = {"rounds": playing, "decisions": deciding}
    (DOCS / "scale.json").write_text(json.dumps(found, indent=1) + "\n")
    draw(found, DOCS / "img" / "scale.png")


def _costs(features: np.ndarray[Any, Any], positions: int = POSITIONS) -> dict[str, float]:
    ranker = first_block(rr.Catalogue(features), positions)
    playing, _, _ = play(features, 100_000, positions)
    blob = ranker.save()
    return {
        "plain scan": seconds(lambda: plain_scan(features)),
        "first block": seconds(lambda: first_block(features, positions)),
        "end of a block": seconds(end_of_block(ranker)),
        "save and load": seconds(lambda: rr.load(blob, rr.Catalogue(features)), repeat=2),
        "a round": playing / 100_000,
    }


def draw(found: dict[str, dict[str, dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    titles = {
        "L": "items L (d = 32, K = 50)",
        "d": "features d (L = 10$^6$, K = 50)",
        "K": "positions K (L = 10$^6$, d = 32)",
        "T": "rounds T (L = 10$^6$, d = 32, K = 50)",
    }
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), sharey=True, layout="constrained")
    for axis, (what, curve) in zip(axes, found.items(), strict=True):
        numbers = [int(number) for number in curve]
        for name in next(iter(curve.values())):
            axis.loglog(numbers, [point[name] for point in curve.values()], "o-", markersize=3, label=name)
        axis.set_xlabel(titles[what])
        axis.grid(alpha=0.3)
        if what in "LT":
            axis.legend(fontsize=7, frameon=False)
    axes[0].set_ylabel("seconds")
    figure.savefig(path, dpi=130)
    plt.close(figure)

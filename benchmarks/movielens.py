"""Reading a file of MovieLens 20M's format and size, over pyarrow's own reading of the same file; memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measure import Figure, at_most

RATINGS, USERS, MOVIES, LARGEST = 20_000_263, 138_493, 26_744, 131_262

READ = """
import json, resource, sys, time
from pathlib import Path
path = Path(sys.argv[2])
began = time.perf_counter()
if sys.argv[1] == "pyarrow":
    from pyarrow import csv
    began = time.perf_counter()
    rows = csv.read_csv(path).num_rows
else:
    import pyarrow.csv
    from recurrank.experiments.movielens import prepare, read_ratings
    began = time.perf_counter()
    ratings = read_ratings(path)
    rows = len(ratings.users)
    if sys.argv[1] == "prepare":
        prepare(ratings)
seconds = time.perf_counter() - began
print(json.dumps([rows, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20]))
"""


def generate(path: Path) -> None:
    """Ratings like those of the 20M set: as many, users in order, popular movies, half stars, a time in seconds."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    extra = rng.pareto(1.2, USERS)
    counts = 20 + np.floor(extra / extra.sum() * (RATINGS - 20 * USERS)).astype(np.int64)
    counts = np.minimum(counts, 9254)
    users = np.repeat(np.arange(1, USERS + 1, dtype=np.int32), counts)
    users = np.sort(np.concatenate([users, rng.integers(1, USERS + 1, RATINGS - len(users), dtype=np.int32)]))
    ids = np.sort(rng.choice(np.arange(1, LARGEST + 1, dtype=np.int32), MOVIES, replace=False))
    popular = np.minimum((rng.pareto(1.1, RATINGS) * 30).astype(np.int64), MOVIES - 1)
    stars = pa.array(rng.integers(1, 11, RATINGS) / 2).cast(pa.decimal128(2, 1))  # written 3.0 and 3.5
    times = rng.integers(789_652_004, 1_427_784_002, RATINGS)
    table = pa.table({"userId": users, "movieId": rng.permutation(ids)[popular], "rating": stars, "timestamp": times})
    with open(path, "wb") as file:
        file.write(b"userId,movieId,rating,timestamp\n")
        csv.write_csv(table, file, csv.WriteOptions(include_header=False))


def run() -> list[Figure]:
    found: dict[str, list[list[float]]] = {"pyarrow": [], "read": [], "prepare": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.csv"
        generate(path)
        size = path.stat().st_size / 1e6
        for _ in range(3):
            for kind, measured in found.items():
                command = [sys.executable, "-c", READ, kind, str(path)]
                measured.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    assert {rows for measured in found.values() for rows, _, _ in measured} == {RATINGS}
    best = {kind: min(seconds for _, seconds, _ in measured) for kind, measured in found.items()}
    memory = {kind: max(peak for _, _, peak in measured) for kind, measured in found.items()}
    detail = f"{size:,.0f} MB, {RATINGS:,} ratings: {best['read']:.2f} s against {best['pyarrow']:.2f} s"
    return [
        at_most("MovieLens 20M read, over pyarrow alone", best["read"] / best["pyarrow"], 3, "times", detail),
        at_most(
            "... and prepared, ten splits",
            best["prepare"] / best["pyarrow"],
            3,
            "times",
            f"{best['prepare']:.2f} s from the file to features",
        ),
        at_most("... memory of the process", memory["prepare"], 2, "GB", f"pyarrow alone {memory['pyarrow']:.2f} GB"),
    ]

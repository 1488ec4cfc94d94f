"""Scans in chunks: the same numbers as in one piece, and never the whole catalogue in memory."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive

from recurrank.catalogue.rows import CHUNK_NUMBERS, Rows, column_scales, leverages, products
from recurrank.catalogue.scan import Best, Lens, merged


@pytest.mark.parametrize("index", [None, np.array([5, 3, 3, 0], np.int32)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_views(index, dtype):
    features = np.random.default_rng(0).standard_normal((50, 4)).astype(dtype)
    rows = Rows(features, index)
    chosen = features.astype(np.float64) if index is None else features[index].astype(np.float64)
    assert len(rows) == len(chosen)
    np.testing.assert_array_equal(np.vstack([chunk for _, chunk in rows.chunks()]), chosen)
    np.testing.assert_array_equal(rows.take(np.array([1, 0])), chosen[[1, 0]])
    np.testing.assert_array_equal(rows.part(np.array([2, 1])).take(np.array([0])), chosen[[2]])


def test_products_are_the_twins_and_equal_for_equal_rows():
    features = np.random.default_rng(1).standard_normal((CHUNK_NUMBERS // 3 + 100, 3))
    vector = np.array([0.3, -0.7, 1.1])
    result = products(Rows(features), vector)
    np.testing.assert_allclose(result[:200], naive.products(features[:200], vector), rtol=1e-13, atol=1e-15)
    for dim in range(1, 40):  # wherever a row stands, in whatever chunk
        wide = np.tile(np.random.default_rng(dim).standard_normal(dim), (5000, 1))
        assert len(set(products(Rows(wide), np.random.default_rng(0).standard_normal(dim)))) == 1
    np.testing.assert_allclose(result, features @ vector, atol=1e-12)


def test_leverages_in_chunks():
    features = np.random.default_rng(2).standard_normal((70_000, 3))
    whitening = np.random.default_rng(3).standard_normal((3, 3))
    expected = ((features @ whitening) ** 2).sum(axis=1)
    np.testing.assert_allclose(leverages(Rows(features), whitening), expected, rtol=1e-12)


def test_scales_see_every_chunk():
    features = np.zeros((100_000, 2))
    features[99_999] = [-3.0, 2.0]
    assert column_scales(Rows(features)).tolist() == [3.0, 2.0]


def test_a_mapped_catalogue_is_never_held_in_memory(tmp_path):
    """The design of a 360 MB map in a process whose own memory may not grow by more than a quarter of that."""
    path = tmp_path / "x.npy"
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(3_000_000, 30))
    rng = np.random.default_rng(0)
    for start in range(0, 3_000_000, 200_000):
        mapped[start : start + 200_000] = rng.standard_normal((200_000, 30), dtype=np.float32)
    mapped.flush()
    script = f"""
import re
import numpy as np, recurrank as rr
def private():
    status = open("/proc/self/status").read()
    return int(re.search(r"RssAnon:\\s+(\\d+)", status).group(1)) * 1024
rr.g_optimal(np.random.default_rng(0).standard_normal((5000, 30)))
before = private()
import threading, time
peak, stop = [0], []
def watch():
    while not stop:
        peak[0] = max(peak[0], private()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
design = rr.g_optimal(np.load({str(path)!r}, mmap_mode="r"), 0.1)
stop.append(1); thread.join()
print(design.value, peak[0] - before)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True).stdout.split()
    assert float(out[0]) <= 33
    assert float(out[1]) < 90e6


@given(
    values=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    most=st.integers(1, 20),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_the_best_are_the_same_in_whatever_order_they_come(values, most, cuts, order):
    """Equal numbers by their place; the collector is told to forget early, so that it has to choose on the way."""
    numbers = np.array(values, float)
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))[:most]
    edges = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    pieces = [(start, numbers[start:stop]) for start, stop in itertools.pairwise(edges)]
    order.shuffle(pieces)
    best = Best(most, spare=0)
    for start, piece in pieces:
        best.add(start, piece)
    indices, found = best.found()
    assert indices.tolist() == expected
    assert found.tolist() == [values[i] for i in expected]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_passes_over_parts_merge_to_the_pass_over_all(dtype):
    """To the last bit, wherever the parts begin; some rows are off the span, some repeated."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((40_000, 9)).astype(dtype)
    features[:, 8] = 0
    features[rng.choice(40_000, 30), 8] = 1e-3
    features[100:200] = features[50]
    lens = Lens(rng.standard_normal((9, 8)), np.eye(9)[:, 8:], np.ones(9), 1e-6)
    whole = Rows(features).scan(lens, 500)
    assert len(whole.indices) == 500
    assert len(whole.outside) == 30
    assert whole.rest == pytest.approx(naive_levers(features, lens)[500], rel=1e-12)
    parts = []
    edges = [0, 1, 4097, 30_000, 40_000]
    for start, stop in itertools.pairwise(edges):
        found = Rows(features[start:stop]).scan(lens, 500)
        parts.append(found._replace(indices=found.indices + start, outside=found.outside + start))
    together = merged([merged(parts[:3], 500), parts[3]], 500)
    for one, two in zip(whole, together, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes()
    np.testing.assert_array_equal(whole.rows, features[whole.indices].astype(np.float64))
    np.testing.assert_allclose(whole.lever, naive_levers(features, lens)[:500], rtol=1e-12)


def naive_levers(features, lens):
    """All leverages, the largest first."""
    image = features.astype(np.float64) @ lens.whitening
    return np.sort((image * image).sum(axis=1))[::-1]


def test_rounded_products():
    features = np.random.default_rng(5).standard_normal((3000, 11)).astype(np.float32)
    vector = np.random.default_rng(6).standard_normal(11)
    best = Best(7)
    rounded = products(Rows(features), vector, decimals=3, best=best)
    np.testing.assert_array_equal(rounded, products(Rows(features), vector).round(3))
    assert best.found()[0].tolist() == np.lexsort((np.arange(3000), -rounded))[:7].tolist()

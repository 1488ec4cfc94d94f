"""Large sets of items, read in pieces, against the same in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from recurrank.rankers.engines.certificates import Alone, beaten, divided
from recurrank.rankers.engines.pieces import PIECE, farthest, leaders_first
from recurrank.rankers.engines.posterior import look


@pytest.fixture(params=[(PIECE - 1, 1, 1), (3 * PIECE + 7, 4, 5), (2 * PIECE, 5, 10)], ids=str)
def made(request):
    """Features with many equal rows, some of the items in some order, theta, and how many are shown."""
    count, dim, width = request.param
    rng = np.random.default_rng(count)
    features = rng.normal(size=(count, dim))[rng.integers(0, count, 2 * count)]
    return features, rng.permutation(2 * count)[:count].astype(np.int32), rng.normal(size=dim), width, rng


def test_leaders_come_first_and_the_others_stay_in_order(made):
    features, items, theta, width, _ = made
    order = leaders_first(features, items, theta, width)
    best = np.argsort(-(features[items] @ theta).round(12), kind="stable")[:width]
    assert order[:width].tolist() == items[best].tolist()
    assert order[width:].tolist() == [items[i] for i in range(len(items)) if i not in best]


def test_the_same_tables_in_pieces_and_as_a_whole(made):
    features, items, theta, width, rng = made
    items = leaders_first(features, items, theta, width)
    narrow, wide = (theta[:, None] + rng.normal(size=(len(theta), 9)) for _ in range(2))
    tables = []
    for whole in (True, False):
        first, asked, gain, cost = np.zeros(9, np.int64), np.zeros(9, np.int64), np.zeros(9), np.zeros(9)
        look(features, items, whole, 1 / np.arange(1.0, width + 1), theta, narrow, wide, first, asked, gain, cost)
        tables.append((first, asked, gain, cost))
    for one, other in zip(*tables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert tables[0][0].tolist() == [int(items[np.argmax((features[items] @ narrow[:, s]).round(12))]) for s in range(9)]
    assert (tables[0][2] > 0).any()


def test_the_farthest_item(made):
    features, items, theta, _, rng = made
    root = rng.normal(size=(len(theta), len(theta)))
    lengths = np.linalg.norm((features[items] - features[items[0]]) @ root, axis=1)
    place, length = farthest(features, items, root @ root.T)
    assert place == np.argmax(lengths.round(9))
    assert length == pytest.approx(lengths.max())


def test_who_is_beaten(made):
    features, items, theta, width, rng = made
    root = rng.normal(size=(len(theta), len(theta))) / 10
    points, top = features[items], 2 * width
    better = beaten(features, items, [Alone(root @ root.T, theta, 1.5)], top)
    gap = (points[:top] @ theta)[:, None] - points @ theta
    width_of = np.linalg.norm((points[:top, None] - points[None]) @ root, axis=2)
    assert (better == (gap > 1.5 * width_of + 1e-9)).all()
    assert len(theta) == 1 or 0 < better.sum() < better.size  # on a line all differences have the same ratio


@pytest.mark.parametrize("beta", [0.5, 1.5, 4.0])
def test_large_blocks_are_divided_as_small_ones_are(made, beta):
    """By several data sets, whether items that cannot be beaten often enough are read to the end or not."""
    features, items, theta, width, rng = made
    roots = [rng.normal(size=(len(theta), len(theta))) / 10 for _ in range(3)]
    sets = [Alone(root @ root.T, theta + rng.normal(size=len(theta)) / 10, beta) for root in roots]
    small, large = (divided(features, items, theta, width, sets, 1, limit) for limit in (len(items), 0))
    assert [(sorted(part.items), part.width) for part in small] == [(sorted(part.items), part.width) for part in large]
    assert len(small) > 1 or len(small[0].items) < len(items) or beta > 1 or len(theta) == 1
    for part in large:
        if part.least is not None:
            place, length = farthest(features, part.items, sets[1].inverse)
            assert part.least == (part.items[place], pytest.approx(length))


def test_a_large_block_is_cut_below_an_item_that_beats_all():
    """The first item is a class of its own: it gets the first position, whatever there is to tell among the others."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3 * PIECE, 3)) / 10
    features[5, 0] = 9.0
    sets = [Alone(np.diag([0.001, 1.0, 1.0]), np.array([1.0, 0.0, 0.0]), 5.0)]
    parts = divided(features, np.arange(3 * PIECE, dtype=np.int32), np.array([1.0, 0.0, 0.0]), 4, sets, 0, 0)
    assert parts[0].items.tolist() == [5]
    assert [part.width for part in parts] == [1, 3]
    assert len(parts[1].items) > PIECE

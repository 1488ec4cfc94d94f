"""Copies that take over only what has changed: equal to whole copies, whatever was done to either side in between."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.rankers.engines.tracking import ROWS, copied_changes, no_changes, renew, touch
from recurrank.rankers.states import flatten

TRACKED = [name for name in rr.rankers.names("catalogue") if rr.rankers.registered()[name].tracked]
ITEMS, POSITIONS = 60 * ROWS + 7, 4


def build(name, **options):
    features = rr.synthetic(items=ITEMS, dim=3, seed=0).features
    return rr.rankers.make(name, features=features, positions=POSITIONS, rounds=5000, seed=1, **options)


def everything(ranker):
    return {name: array.copy() for name, array in flatten(ranker.state, ())}


def test_those_with_large_tables_track_them():
    assert {"bubblerank", "grab", "pb-mhb", "pbm-pie", "ranked-bandits", "ranked-zooming"} <= set(TRACKED)


OTHERS = [("ranked-bandits", {"inside": "klucb"}), ("ranked-zooming", {"lipschitz": 100.0})]


@pytest.mark.parametrize(("name", "options"), [(name, {}) for name in TRACKED] + OTHERS)
def test_views_equal_whole_copies_after_any_operations(name, options):
    rng, source = np.random.default_rng(2), build(name, **options)
    model = rr.clicks.make("document", np.linspace(0.9, 0.1, ITEMS), POSITIONS)
    view, retired, waiting = source.copy(), source.copy(), []
    for turn in range(60):
        for _ in range(rng.integers(4)):
            waiting.append(source.rank())
        while waiting and rng.random() < 0.6:  # answers in any order
            source.learn(waiting.pop(rng.integers(len(waiting))), rng.random(POSITIONS) < 0.4)
        if turn == 20:
            rr.simulate(source, model, 3000, seed=3)  # much at once
        if turn == 40:
            source.unpack(*build(name, **options).pack())  # another state in its place
        for _ in range(rng.integers(3)):  # what the copy does by itself is forgotten
            shown = view.rank()
            if turn % 3 == 0:
                view.learn(shown, rng.random(POSITIONS) < 0.4)
        view, retired = source.copy(seed=turn, into=retired), view
        found, wanted = everything(view), everything(source)
        for field in wanted:
            np.testing.assert_array_equal(found[field], wanted[field], err_msg=f"{field} after {turn} turns")


def test_only_what_was_touched_is_copied():
    """A change that nobody tells of stays where it is: that is what makes it cheap."""
    table, changes = np.arange(40.0 * ROWS + 3).repeat(2).reshape(-1, 2), no_changes(40 * ROWS + 3)
    room, known = table.copy(), copied_changes(changes)
    table[5], table[6 * ROWS], table[-1] = -1, -2, -3
    touch(changes, 6 * ROWS)
    touch(changes, len(table) - 1)
    renew(room, known, table, changes)
    assert room[5].tolist() == [5, 5]
    assert room[6 * ROWS].tolist() == [-2, -2]
    assert room[-1].tolist() == [-3, -3]


def test_nothing_is_taken_for_granted_of_another_state():
    table, changes = np.zeros((40 * ROWS, 1)), no_changes(40 * ROWS)
    room, known = np.ones_like(table), no_changes(40 * ROWS)
    renew(room, known, table, changes)
    assert not room.any()

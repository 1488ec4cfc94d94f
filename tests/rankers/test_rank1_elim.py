"""Rank1Elim and Rank1ElimKL: the best item and the best position, found together."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.rankers.rank1_elim import COLUMNS, ROWS

ATTRACTION, EXAMINATION = np.array([0.2, 0.9, 0.3, 0.25]), [0.3, 0.25, 1.0]


@pytest.mark.parametrize("name", ["rank1-elim", "rank1-elim-kl"])
def test_one_item_and_one_position_are_left(name):
    ranker = rr.rankers.make(name, features=np.eye(4), positions=3, rounds=200_000, seed=0)
    rr.simulate(ranker, rr.clicks.PositionBased(ATTRACTION, EXAMINATION), 200_000, seed=1)
    assert ranker.state.rows[: ranker.state.counts[ROWS]].tolist() == [1]
    assert ranker.state.columns[: ranker.state.counts[COLUMNS]].tolist() == [2]
    slate = ranker.rank()
    assert slate.marks[0, 0] == 2
    assert slate.items[2] == 1
    assert ranker.knowledge().leaders[0] == 1


def test_only_the_click_at_the_chosen_position_counts():
    ranker = rr.rankers.make("rank1-elim", features=np.eye(4), positions=3, rounds=1000, seed=0)
    for _ in range(7):  # a sweep over four items, one over three positions
        slate = ranker.rank()
        clicks = np.ones(3, bool)
        clicks[slate.marks[0, 0]] = False
        ranker.learn(slate, clicks)
    assert ranker.state.row_seen.tolist() == [1] * 4
    assert ranker.state.column_seen.tolist() == [1] * 3
    assert ranker.state.row_clicks.sum() == ranker.state.column_clicks.sum() == 0

"""What rankers say about themselves."""

from __future__ import annotations

import pytest

import recurrank as rr


@pytest.mark.parametrize("name", ["balanced", "recurrank"])
def test_blocks_cover_the_positions_and_leaders_are_what_is_shown(name, problem, position_model):
    ranker = rr.rankers.make(name, features=problem.features, positions=5, rounds=10**6, seed=0)
    rr.simulate(ranker, position_model, 10**6, seed=0)
    known = ranker.knowledge()
    assert [k for block in known.blocks for k in range(block.first, block.first + block.width)] == list(range(5))
    assert len(set(known.leaders)) == 5
    assert (known.history is not None) == (name == "recurrank")
    for block in known.blocks:
        assert block.certain == ("place" if block.items == 1 else "shown" if block.items == block.width else "no")
    settled = [k for block in known.blocks if block.certain == "place" for k in range(block.first, block.first + block.width)]
    assert settled
    assert ranker.rank().items[settled].tolist() == [known.leaders[k] for k in settled]


def test_others_say_nothing(problem):
    known = rr.rankers.make("linucb", features=problem.features, positions=5, rounds=100, seed=0).knowledge()
    assert (known.blocks, known.leaders, known.history) == (None, None, None)


def test_the_default_is_an_algorithm():
    assert rr.rankers.DEFAULT in rr.rankers.names("catalogue")

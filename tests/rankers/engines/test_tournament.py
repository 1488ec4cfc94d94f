"""The tournament inside Ranked Bandits: the best arm of each bandit, however late, uneven or tied the observations are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.naive_rankers import kl_ucb, level, top

import recurrank as rr
from recurrank.rankers.engines.tournament import in_blocks


def literal_choice(inside, constant, t, counts, rewards):
    """The arm of largest index, ties by number; as the twin has it."""
    if inside == "ucb1":
        radius = constant * math.log(t)
        index = [s / n + math.sqrt(radius / n) if n else math.inf for n, s in zip(counts, rewards, strict=True)]
    else:
        f = level(t, constant)
        index = [round(kl_ucb(s / n, f / n), 12) if n else math.inf for n, s in zip(counts, rewards, strict=True)]
    return top(index, 1)[0]


@pytest.mark.parametrize("items", [1, 2, 9, 50, 130])
@pytest.mark.parametrize(("inside", "constant"), [("ucb1", 2.0), ("ucb1", 0.01), ("ucb1", 0.0), ("klucb", 3.0), ("klucb", 0.0)])
def test_the_best_arm_whatever_comes_late_or_never(inside, constant, items):
    positions, rounds = min(items, 2), 1500 if inside == "ucb1" else 300
    rng = np.random.default_rng([items, rounds])
    attraction = rng.choice([0.0, 0.1, 0.5, 0.5, 1.0], items)
    ranker = rr.rankers.make(
        "ranked-bandits",
        features=np.ones((items, 1)),
        positions=positions,
        rounds=rounds,
        seed=0,
        inside=inside,
        exploration=constant,
    )
    counts, rewards = np.zeros((positions, items), int), np.zeros((positions, items), int)
    waiting = []
    for t in range(1, rounds + 1):
        slate = ranker.rank()
        for k in range(positions):
            assert slate.marks[k, 0] == literal_choice(inside, constant, t, counts[k], rewards[k]), f"round {t}"
        waiting.append(slate)
        while len(waiting) > (30 if t // 100 % 2 else 0):  # prompt for a hundred rounds, then late and in any order
            slate = waiting.pop(rng.integers(len(waiting)))
            if rng.random() < 0.05:
                continue  # never
            clicks = rng.random(positions) < attraction[slate.items]
            ranker.learn(slate, clicks)
            for k in range(positions):
                chosen = slate.marks[k, 0]
                counts[k, chosen] += 1
                rewards[k, chosen] += clicks[k] and slate.items[k] == chosen


@pytest.mark.parametrize("items", [1, 2, 3, 4, 5, 16, 17, 999, 1000])
def test_blocks_hold_all_arms_and_none_is_empty(items):
    blocks, size = in_blocks(items)
    assert (blocks - 1) * size < items <= blocks * size

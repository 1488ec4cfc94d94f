"""Learning through a real server, from users whose reports come late, twice or never."""

from __future__ import annotations

import asyncio

import numpy as np
from benchmarks.users import Habits, regret_of, visit
from tests.serving.running import serving

import recurrank as rr
from recurrank.client import Client


def test_late_lost_and_repeated_reports_cost_little(tmp_path, soaking):
    """A fifth lost, a tenth twice, delays longer than the first phases: at most 1.5 times the regret of reports at once."""
    slates, delay = (100_000, 2_000) if soaking else (15_000, 400)
    problem, positions = rr.synthetic(items=200, dim=3, seed=0), 5
    model = rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, positions + 1))
    immediate = [
        rr.simulate(rr.RecurRank(problem.features, positions, slates, seed), model, rounds=slates, seed=seed).regret[-1]
        for seed in range(5)
    ]
    with serving("--store", f"sqlite:///{tmp_path}/x.db") as (_, url), Client(url) as client:
        items = [(str(place), row.tolist()) for place, row in enumerate(problem.features)]
        client.create("films", positions, items, algorithm="recurrank", rounds=slates, window_seconds=5.0)
        habits = Habits(lost=0.2, repeated=0.1, delay=delay)
        outcome = asyncio.run(visit(int(url.rpartition(":")[2]), "films", model, slates, habits, seed=0))
        status = client.status("films")
    kept, _ = regret_of(model, outcome)
    assert outcome.statuses["learned"] == (~outcome.lost).sum()
    assert outcome.statuses["duplicate"] > 0.05 * slates
    assert 0.15 < outcome.lost.mean() < 0.25
    assert status["blocks"][0]["phase"] > 3
    assert kept < 1.5 * np.mean(immediate)

"""Streams of requests, and rankers that meet them: the compiled loop plays the library's own rounds."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.rankers.contextual.told import Told
from recurrank.requests.world import COUNT, GROUP, VISITOR, draw, drawn
from recurrank.seeds import stream
from recurrank.simulation.requests import RequestSimulation

SMALL = rr.requests.Clusters(items=60, clusters=4, candidates=10, dim=3, seed=1)
STREAMS = {
    "uniform": rr.requests.Uniform(items=30, dim=3, candidates=8),
    "zipf": rr.requests.Zipf(items=30, dim=3, candidates=8),
    "clusters": SMALL,
    "orthogonal": rr.requests.Orthogonal(items=6, candidates=5),
    "context": rr.requests.Context(items=20, dim=2, context=2, visitors=15, candidates=8),
    "leader": rr.requests.Leader(SMALL, 0.9),
    "churn": rr.requests.Churn(SMALL, share=0.1, every=50),
    "drift": rr.requests.Drift(SMALL, angle=100.0, every=50),
    "log": rr.requests.Log([np.eye(3), 0.5 * np.eye(3)[:2]], [[0.5, 0.4, 0.1], [0.2, 0.3]]),
    "visitors": rr.requests.Visitors(np.eye(5)[:, :2], [[1.0], [0.5]], np.linspace(0.1, 0.8, 10).reshape(2, 5), candidates=4),
    "users": rr.requests.Users(items=30, dim=3, candidates=8, users=6, clusters=2),
    "segments": rr.requests.Clusters(items=60, clusters=4, candidates=10, dim=3, patience=(0.5, 1.5), named=True),
}


@pytest.mark.parametrize("name", STREAMS)
def test_requests_draw_different_items_of_one_group(name):
    world = STREAMS[name].world()
    present, rng = drawn(world, 3), np.random.default_rng(0)
    for number in range(200):
        draw(present, rng)
        count, group, visitor = present.about[[COUNT, GROUP, VISITOR]]
        rows = present.rows[:count].tolist()
        assert len(set(rows)) == len(rows) == min(world.candidates, world.size[group] + (world.leader >= 0))
        start = world.start[group]
        assert all(start <= row < start + world.size[group] or row == world.leader for row in rows)
        if world.leader >= 0:
            assert rows[0] == world.leader
        if name == "users":
            assert visitor == group
        if name == "log":
            assert group == number % 2
        truth = np.atleast_2d(world.attraction)[visitor if name in ("context", "visitors", "users") else 0][rows]
        np.testing.assert_array_equal(present.truth[:count], truth)
        if name in ("context", "visitors"):
            x, c = world.features[rows], world.contexts[visitor]
            joint = np.hstack([x, np.tile(c, (count, 1)), np.einsum("ip,q->ipq", x, c).reshape(count, -1)])
            np.testing.assert_array_equal(present.joint[:count], joint)


def test_a_log_comes_in_its_own_order():
    recorded = rr.requests.Log([np.eye(2), [[0.5, 0.5]]], [[0.5, 0.4], [0.1]], order=[1, 1, 0])
    present, rng = drawn(recorded.world(), 1), np.random.default_rng(0)
    groups = []
    for _ in range(7):
        draw(present, rng)
        groups.append(int(present.about[GROUP]))
    assert groups == [1, 1, 0, 1, 1, 0, 1]


def test_popular_items_come_more_often():
    world = STREAMS["zipf"].world()
    present, rng, seen = drawn(world, 3), np.random.default_rng(0), np.zeros(30)
    for _ in range(2000):
        draw(present, rng)
        seen[present.rows] += 1
    assert np.corrcoef(seen, np.log(world.popularity))[0, 1] > 0.9


@pytest.mark.parametrize("name", ["clusters", "segments", "context", "log"])
def test_a_round_at_a_time_and_compiled_are_the_same(name):
    world = STREAMS[name].world()
    make = {"dim": world.features.shape[1], "context": world.contexts.shape[1], "interactions": "outer"}
    one, many = (rr.Anchored(positions=3, seed=2, **make) for _ in range(2))
    for segment in world.segments or ():
        one.index_of(segment)
    present, visitors, users = drawn(world, 3), stream(4, "requests", 0), stream(4, "users", 0)
    lost = 0.0
    for _ in range(300):
        draw(present, visitors)
        count, group, visitor = present.about[[COUNT, GROUP, VISITOR]]
        context = world.contexts[visitor] if len(world.contexts) else None
        segment = world.segments[group] if world.segments else None
        examination = (1 / np.arange(1, 4)) ** (world.patience[group] if len(world.patience) else 1.0)
        model = rr.clicks.PositionBased(present.truth[:count].copy(), examination)
        slate = one.rank(world.features[present.rows[:count]], context=context, segment=segment)
        lost += model.expected(model.best(len(slate))).sum() - model.expected(slate.items).sum()
        one.learn(slate, model.sample(slate.items, users))
    run = rr.simulate(many, clicks="position-based", requests=STREAMS[name], rounds=300, seed=4)
    assert run.regret[-1] == pytest.approx(lost, rel=1e-9)
    assert one.save() == many.save()


@pytest.mark.parametrize("clicks", sorted(set(rr.clicks.names()) - {"cascade", "document-based"}))
def test_examination_depends_on_the_request(clicks):
    """Every parameter of a click model to the power of the group's patience, but for a mixture's share."""
    ranker, base = rr.Anchored(dim=3, positions=3, seed=0), rr.clicks.make(clicks, np.full(10, 0.5), 3).state.table
    simulation = RequestSimulation(ranker, clicks, STREAMS["segments"], 4)
    for _ in range(20):
        simulation.advance(simulation.round + 1)
        expected = base ** simulation.world.patience[simulation.stream.about[GROUP]]
        if clicks == "mixture":
            expected[1] = base[1]
        np.testing.assert_allclose(simulation.model.table, expected)


def test_the_world_changes():
    for name in ("churn", "drift"):
        world, before = STREAMS[name].world(), STREAMS[name].world()
        world.turn(np.random.default_rng(0), 50)
        changed = (world.attraction != before.attraction).mean()
        assert 0.05 < changed < 0.15 if name == "churn" else changed > 0.9
        assert (
            rr.simulate(rr.Anchored(dim=3, positions=3, seed=0), clicks="cascade", requests=STREAMS[name], rounds=120).rounds[
                -1
            ]
            == 120
        )


@pytest.mark.parametrize("clicks", rr.clicks.names())
def test_an_oracle_is_told_and_everybody_learns(clicks):
    """2,000 rounds: less than a third of the regret of one that never estimates; what the oracle finds is the truth."""
    world = SMALL.world()
    told, learner, idle = Told(dim=3, positions=3, seed=0), rr.Anchored(dim=3, positions=3, seed=0), 0.0
    regret = [rr.simulate(r, clicks=clicks, requests=SMALL, rounds=2000, seed=1).regret[-1] for r in (told, learner)]
    still = rr.Anchored(dim=3, positions=3, seed=0)
    still.state.clock[1] = 10**9  # it is never time to estimate
    idle = rr.simulate(still, clicks=clicks, requests=SMALL, rounds=2000, seed=1).regret[-1]
    assert max(regret) < idle / 3
    u = np.linalg.lstsq(np.c_[np.ones(60), world.features], world.attraction, rcond=None)[0]
    apart = told.state.theta - u
    assert apart @ told._estimated.information @ apart < 4 + 6 * np.sqrt(8)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"ranker": rr.Balanced(np.eye(4), 2, 100, seed=0)}, "ranker: 'balanced' ranks one catalogue"),
        ({"requests": 3}, "requests: int is not a stream"),
        ({"ranker": rr.Anchored(dim=4, positions=3)}, "requests: 3 features per candidate, but the ranker was made for 4"),
        (
            {"clicks": "cascade", "requests": STREAMS["segments"]},
            "clicks: document-based and cascade clicks",
        ),
        ({"clicks": "x"}, "clicks: 'x' is not a click model"),
        ({"clicks": rr.clicks.Factored([0.5], lambda items, k: 1.0)}, "clicks: .* is not a click model of this package"),
        ({"clicks": rr.clicks.PositionBased([0.5], [1.0])}, "clicks: parameters for 1 positions"),
        ({"clicks": rr.clicks.DynamicBayesian([0.5, 0.5], [0.1, 0.2], 0.9)}, "clicks: satisfaction differs"),
        ({"rounds": 0}, "rounds: "),
    ],
)
def test_bad_simulations(change, line):
    settings = {"ranker": rr.Anchored(dim=3, positions=3), "clicks": "cascade", "requests": SMALL, "rounds": 10, **change}
    with pytest.raises(ValueError, match=f"^{line}"):
        rr.simulate(**settings)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: rr.requests.Uniform(items=0), "items: "),
        (lambda: rr.requests.Uniform(items=5, candidates=6), "candidates: 6 is more than the 5"),
        (lambda: rr.requests.Uniform(link="x"), "link: 'x' is unknown"),
        (lambda: rr.requests.Clusters(items=100, clusters=30), "clusters: "),
        (lambda: rr.requests.Leader(SMALL, 1.5).world(), "attraction: 1.5"),
        (lambda: rr.requests.Churn(SMALL, share=2.0), "share: 2.0"),
        (lambda: rr.requests.Log([[[1.0]]], []).world(), "attraction: 0 lists for 1 requests"),
        (lambda: rr.requests.Log([[[1.0]]], [[0.5, 0.5]]).world(), r"features\[0\]: shape"),
        (lambda: rr.requests.Log([[[1.0]]], [[0.5]], order=[1]).world(), "order: give numbers of requests, from 0 to 0"),
        (lambda: rr.requests.Visitors(np.eye(2), [1.0], [[0.5, 0.5]]).world(), r"contexts: shape is \(1,\)"),
        (lambda: rr.requests.Visitors(np.eye(2), [[1.0]], [[0.5]]).world(), r"attraction: shape is \(1, 1\)"),
        (
            lambda: rr.requests.Visitors(np.eye(2), [[1.0]], [[0.5, 0.5]], candidates=3).world(),
            "candidates: 3 is more than",
        ),
    ],
)
def test_bad_streams(make, line):
    with pytest.raises(ValueError, match=f"^{line}"):
        make()

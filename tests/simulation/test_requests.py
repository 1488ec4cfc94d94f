"""Streams of requests, and rankers that meet them: the compiled loop plays the library's own rounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import recurrank as rr
from recurrank._compiled import interpreted
from recurrank.clicks.optimum import EXACT, FOUND
from recurrank.rankers.contextual.told import Told
from recurrank.requests import world as world_module
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


ORDERS = {
    "position-based:examination=0.2/0.9/0.5": True,
    "mixture:examination=0.2/0.9/0.5": True,
    "dependent-click:continuation=0.9/0.4/0.1": True,
    "dependent-click:continuation=0.1/0.9/0.9": False,
    "dynamic-bayesian:continuation=1.0": True,
    "click-chain:alpha1=1.0:alpha2=1.0:alpha3=0.0": True,
    "click-chain": True,
    "cascade": True,
    "document-based": True,
    "set-dependent": True,
    "user-browsing": False,
}


@pytest.mark.parametrize("clicks", ORDERS)
@pytest.mark.parametrize("patience", [None, (0.5, 1.5)])
def test_regret_is_against_the_best_order_of_each_request(clicks, patience):
    """By trying all orders of five of nine candidates, three positions, request after request; or it does not say exact."""
    requests = rr.requests.Clusters(items=27, clusters=3, candidates=5, dim=2, seed=1, patience=patience)
    if patience and clicks.partition(":")[0] in ("cascade", "document-based"):
        return
    simulation = RequestSimulation(rr.Anchored(dim=2, positions=3, seed=0), clicks, requests, 4)
    assert simulation.optimum == (EXACT if ORDERS[clicks] else FOUND)
    examine = type(rr.clicks.make(clicks, np.full(5, 0.5), 3)).compiled_examine
    spread, chi = np.random.default_rng(0).uniform(0.01, 0.99, 27), np.zeros(3)
    simulation.stream.attraction[:] = spread
    for _ in range(15):
        simulation.advance(simulation.round + 1)

        def expected(ranking, chi=chi):
            examine(simulation.model, np.array(ranking), chi)
            return chi @ simulation.model.attraction[list(ranking)]

        found, most = expected(simulation._room[1]), max(map(expected, itertools.permutations(range(5), 3)))
        assert found == pytest.approx(most, abs=1e-12) if ORDERS[clicks] else found <= most + 1e-12


@pytest.mark.parametrize(("clicks", "optimum"), [("ccm", EXACT), ("ubm", FOUND)])
def test_a_run_says_what_its_regret_is_against(clicks, optimum):
    requests = rr.requests.Orthogonal(items=6, candidates=6, seed=1)
    run = rr.simulate(rr.Anchored(dim=6, positions=3, seed=0), clicks=clicks, requests=requests, rounds=20)
    assert run.optimum == optimum


def test_steep_popularity_ends():
    """The rest of the candidates is drawn at once, by the same law as one after the other."""
    steep = drawn(rr.requests.Zipf(items=400, candidates=40, exponent=20).world(), 3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        draw(steep, rng)
        assert len(set(steep.rows.tolist())) == 40
    world = rr.requests.Zipf(items=5, candidates=3, dim=2, exponent=1.5).world()
    counts = np.zeros((2, 5, 5, 5))
    for place, tries in enumerate((world_module.TRIES, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world_module, "TRIES", tries)
            present = drawn(world, 3)
            for _ in range(3000):
                interpreted(draw)(present, rng)
                counts[place][tuple(present.rows)] += 1
    seen = counts.reshape(2, -1)[:, counts.sum(0).ravel() > 0]
    off = (seen[0] - seen[1]) ** 2 / seen.sum(0)
    assert off.sum() < len(off) + 5 * np.sqrt(2 * len(off))


def test_changes_of_streams_can_be_combined():
    """A leader stays when others go, and falls when the taste turns; changes keep their own times."""
    around, within = rr.requests.Churn(rr.requests.Leader(SMALL), 1.0), rr.requests.Leader(rr.requests.Churn(SMALL, 1.0))
    for churn in (around, within):
        world, before = churn.world(), churn.world()
        world.turn(np.random.default_rng(0), 10_000)
        assert (world.features != before.features).any(axis=1).tolist() == [True] * 60 + [False]
        inside = before.attraction > 0.005
        u = np.linalg.lstsq(before.features[inside], (before.attraction[inside] - 0.2) / 0.25, rcond=None)[0]
        np.testing.assert_allclose(world.attraction, np.maximum(0.2 + 0.25 * world.features @ u, 0.005), atol=1e-9)
    falls = rr.requests.Drift(rr.requests.Leader(SMALL), angle=1.0).world()
    falls.turn(np.random.default_rng(0), 100_000)
    assert falls.attraction[-1] < 0.9
    both = rr.requests.Churn(rr.requests.Drift(SMALL, every=40), every=60).world()
    assert both.every == 20
    attraction = both.attraction.copy()
    both.turn(np.random.default_rng(0), 20)
    assert (both.attraction == attraction).all()
    both.turn(np.random.default_rng(0), 40)
    assert (both.attraction != attraction).mean() > 0.9
    nothing = rr.requests.Churn(SMALL, share=0.0).world()
    nothing.turn(np.random.default_rng(0), 10_000)
    assert (nothing.attraction == SMALL.world().attraction).all()
    run = rr.simulate(rr.Anchored(dim=3, positions=3, seed=0), clicks="cascade", requests=within, rounds=50)
    assert run.rounds[-1] == 50


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
        ({"model": rr.clicks.Cascade([0.5])}, "model: requests bring their own attractions"),
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
        (lambda: rr.requests.Leader(SMALL, 1.5), "attraction: 1.5"),
        (lambda: rr.requests.Zipf(exponent=float("nan")), "exponent: nan"),
        (lambda: rr.requests.Zipf(exponent=21), "exponent: 21"),
        (lambda: rr.requests.Clusters(patience=(1, 2, 3)), r"patience: \(1, 2, 3\) is not a range"),
        (lambda: rr.requests.Clusters(patience=(-2, 2)), r"patience: \(-2, 2\) is not a range"),
        (lambda: rr.requests.Drift(rr.requests.Orthogonal()), "base: the items of Orthogonal follow no taste"),
        (lambda: rr.requests.Drift(rr.requests.Drift(SMALL)), "base: a Drift cannot be inside a Drift"),
        (lambda: rr.requests.Leader(rr.requests.Churn(rr.requests.Drift(SMALL))), "base: a Drift cannot be inside a Leader"),
        (lambda: rr.requests.Leader(rr.requests.Leader(SMALL)), "base: a Leader cannot be inside a Leader"),
        (lambda: rr.requests.Drift(SMALL, angle=float("inf")), "angle: inf"),
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

"""RecurRank against its literal twin, its invariants, and its handling of late, lost and surplus answers."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive

import recurrank as rr
from recurrank.rankers.recurrank import split

GOLDEN = Path(__file__).parents[1] / "golden" / "recurrank.json"


def play(ranker, model, rounds, seed=0):
    users = np.random.default_rng(seed)
    for _ in range(rounds):
        slate = ranker.rank()
        ranker.learn(slate, model.sample(slate, users))


@pytest.mark.parametrize("design", ["optimal", "spanner"])
@pytest.mark.parametrize("elimination", ["proof", "literal"])
@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_the_literal_twin_round_by_round(design, elimination, seed):
    items, dim, positions = [(12, 4, 5), (30, 3, 4), (8, 8, 8), (20, 2, 1)][seed % 4]
    problem = rr.synthetic(items=items, dim=dim, seed=seed)
    if seed == 6:  # orthogonal features: d = L
        problem = rr.Problem(np.eye(8), np.random.default_rng(0).random(8))
    model = rr.clicks.make(["document", "cascade", "position", "dbn"][seed // 2], problem.attraction, positions)
    settings = {
        "positions": positions,
        "rounds": 4000,
        "seed": seed,
        "design": design,
        "elimination": elimination,
        "delta": 0.5,
    }
    ranker = rr.RecurRank(problem.features, **settings)
    twin = naive.RecurRank(problem.features, **settings)
    users = np.random.default_rng(seed)
    for t in range(4500):
        slate = ranker.rank()
        assert slate.items.tolist() == twin.rank(), f"round {t}"
        clicks = model.sample(slate, users)
        ranker.learn(slate, clicks)
        twin.learn(clicks)
    assert [(b.phase, list(b.positions), b.leaders.tolist(), sorted(b.items.tolist())) for b in ranker.blocks] == [
        (b.phase, b.positions, b.items[: len(b.positions)], sorted(b.items)) for b in twin.blocks
    ]
    assert len(ranker.history) >= 3  # the comparison went through several phases


def test_the_literal_rule_never_cuts_a_dense_catalogue_and_the_proofs_rule_does():
    problem = rr.synthetic(items=3000, dim=4, seed=0)
    model = rr.clicks.PositionBased(problem.attraction, 1 / np.arange(1, 6))
    regret = {}
    for rule in ("proof", "literal"):
        ranker = rr.RecurRank(problem.features, positions=5, rounds=200_000, seed=0, elimination=rule)
        regret[rule] = rr.simulate(ranker, model, 200_000, seed=1).regret
        survivors = ranker.blocks[-1].size
        assert survivors == 3000 if rule == "literal" else survivors < 300
    assert regret["literal"][-1] > 5 * regret["proof"][-1]


def test_golden_trace():
    """Any change of behaviour shows in the diff of this file; write it anew with RECURRANK_WRITE_GOLDEN=1."""
    problem = rr.synthetic(items=12, dim=4, seed=1)
    model = rr.clicks.DocumentBased(problem.attraction)
    ranker = rr.RecurRank(problem.features, positions=4, rounds=20_000, seed=2)
    users = np.random.default_rng(3)
    slates = []
    for t in range(20_000):
        slate = ranker.rank()
        if t < 20 or t % 2000 == 0:
            slates.append([t, slate.items.tolist()])
        ranker.learn(slate, model.sample(slate, users))
    blocks = [[c.id, c.phase, c.first, c.width, c.items, c.parent, c.opened, c.closed] for c in ranker.history]
    trace = {"slates": slates, "blocks": blocks}
    if os.environ.get("RECURRANK_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(trace).replace("], [", "],\n["))
    assert trace == json.loads(GOLDEN.read_text())


@given(
    items=st.integers(1, 30),
    dim=st.integers(2, 6),
    seed=st.integers(0, 10**6),
    share=st.floats(0.05, 1),
    rounds=st.integers(1, 3000),
)
def test_blocks_tile_the_positions_and_slates_have_no_repeats(items, dim, seed, share, rounds):
    positions = max(1, int(items * share))
    problem = rr.synthetic(items=items, dim=dim, seed=seed)
    model = rr.clicks.DocumentBased(problem.attraction)
    ranker = rr.RecurRank(problem.features, positions=positions, rounds=3000, seed=seed, delta=1.0)
    rr.simulate(ranker, model, rounds, seed=seed)
    blocks = ranker.blocks
    assert [k for block in blocks for k in block.positions] == list(range(positions))
    everything = [a for block in blocks for a in block.items]
    assert len(set(everything)) == len(everything) <= items
    for block in blocks:
        assert len(block.items) == block.size >= block.width
        assert block.size == block.width or block is blocks[-1]
        assert block.items[: block.width].tolist() == block.leaders.tolist()
        assert 0 <= block.progress <= 1
        assert set(block.explored) <= set(block.items.tolist())
    slate = ranker.rank()
    assert len(set(slate.items.tolist())) == positions
    for block in blocks:
        assert set(slate.items[block.first : block.first + block.width]) <= set(block.items.tolist())


@given(
    estimates=st.lists(st.floats(-1, 1), min_size=1, max_size=40),
    share=st.floats(0, 1),
    precision=st.floats(0.01, 0.5),
    rule=st.sampled_from(["proof", "literal"]),
)
def test_split_keeps_what_it_must(estimates, share, precision, rule):
    values = np.array(estimates)
    width = max(1, int(share * len(values)))
    order = np.argsort(-values, kind="stable")
    parts = split(values, order[:width], precision, rule)
    assert np.concatenate([leaders for leaders, _ in parts]).tolist() == order[:width].tolist()  # the best m, in order
    kept = np.concatenate([members for _, members in parts])
    assert len(set(kept)) == len(kept) >= width
    for leaders, members in parts:
        assert set(leaders) <= set(members)
        assert (np.diff(members) > 0).all()  # by their place
        falling = np.sort(values[members])[::-1]
        assert (falling[:-1] - falling[1:] < 2 * precision).all()
    for (_, above), (_, below) in itertools.pairwise(parts):
        assert values[above].min() - values[below].max() >= 2 * precision
    if rule == "proof":
        worst_shown = values[order[width - 1]]
        assert sorted(kept) == np.flatnonzero(worst_shown - values < 2 * precision).tolist()
    assert sum(len(members) for _, members in parts[:-1]) < width  # every part has a position


def test_a_lost_answer_costs_only_time():
    problem = rr.synthetic(items=30, dim=3, seed=0)
    model = rr.clicks.DocumentBased(problem.attraction)
    ranker = rr.RecurRank(problem.features, positions=3, rounds=10_000, seed=0)
    users, lose = np.random.default_rng(0), np.random.default_rng(1)
    for _ in range(12_000):
        slate = ranker.rank()
        if lose.random() < 0.5:
            ranker.learn(slate, model.sample(slate, users))
    assert len(ranker.history) >= 3
    assert ranker.feedback.late == 0  # synchronous answers are never late


def test_late_answers_are_counted_and_not_learned_from():
    problem = rr.synthetic(items=30, dim=3, seed=0)
    model = rr.clicks.DocumentBased(problem.attraction)
    ranker = rr.RecurRank(problem.features, positions=3, rounds=1000, seed=0)
    old = [ranker.rank() for _ in range(5)]
    play(ranker, model, 3000)
    assert ranker.blocks[0].phase > 1
    before = ranker.save()
    late = ranker.feedback.late
    for slate in old:
        ranker.learn(slate, [True, False, False])
    assert ranker.feedback.late == late + 5
    restored = rr.load(before, problem.features)
    assert [b.progress for b in restored.blocks] == [b.progress for b in ranker.blocks]


def test_every_visit_is_learned_exactly_as_often_as_wanted_in_any_order_of_answers():
    problem = rr.synthetic(items=25, dim=3, seed=5)
    model = rr.clicks.DocumentBased(problem.attraction)
    ranker = rr.RecurRank(problem.features, positions=4, rounds=1000, seed=0)
    wanted = int(ranker.blocks[0].visits.sum())
    shuffle = np.random.default_rng(2)
    waiting = []
    while len(ranker.history) == 0:
        waiting.append(ranker.rank())
        if len(waiting) > 40:
            slate = waiting.pop(int(shuffle.integers(len(waiting))))
            ranker.learn(slate, model.sample(slate, shuffle))
        assert (ranker.state.left == np.maximum(ranker.state.short - ranker.state.out, 0)).all()
        assert (ranker.state.out >= 0).all()
        assert ranker.state.open.sum() == ranker.state.left.sum()
    assert ranker.feedback.learned == wanted
    for slate in waiting:  # all of the closed block: late
        ranker.learn(slate, model.sample(slate, shuffle))
    assert ranker.feedback.late == len(waiting)


def test_what_everybody_was_asked_for_is_asked_again_and_surplus_is_counted():
    ranker = rr.RecurRank(np.eye(2), positions=1, rounds=1000, seed=0)
    wanted = int(ranker.blocks[0].visits.sum())
    slates = [ranker.rank() for _ in range(3 * wanted)]
    assert ranker.state.open[0] == 0
    first = [s for s in slates if s.items[0] == slates[0].items[0]]
    need = int(ranker.blocks[0].visits[list(ranker.blocks[0].explored).index(slates[0].items[0])])
    for slate in first:
        ranker.learn(slate, [True])
    assert ranker.feedback.learned == need
    assert ranker.feedback.surplus == len(first) - need > 0
    assert len(ranker.history) == 0  # the other item is still short


def test_drop_asks_again_at_once():
    ranker = rr.RecurRank(np.eye(3), positions=2, rounds=1000, seed=0)
    full = int(ranker.state.open[0])
    slates = [ranker.rank() for _ in range(10)]
    assert int(ranker.state.open[0]) == full - 10
    for slate in slates:
        ranker.drop(slate)
    assert int(ranker.state.open[0]) == full
    assert (ranker.state.out == 0).all()


def test_forged_marks_are_late_and_touch_nothing():
    ranker = rr.RecurRank(np.eye(5), positions=3, rounds=1000, seed=0)
    slate = ranker.rank()
    key = slate.marks[0, 0]
    for marks in ([[key, 9999], [-1, -1], [-1, -1]], [[key, -7], [-1, -1], [-1, -1]], [[key + 1, 0], [key, 9999], [-1, -1]]):
        before = [part.copy() for part in ranker.state[:-1]]
        ranker.learn(dataclasses.replace(slate, marks=np.array(marks)), [True, False, False])
        ranker.drop(dataclasses.replace(slate, marks=np.array(marks)))
        assert all((a == b).all() for a, b in zip(before, ranker.state[:-1], strict=True))
    assert ranker.feedback.late == 4
    with pytest.raises(ValueError, match=r"^slate: "):
        ranker.learn(dataclasses.replace(slate, marks=np.array([[key, 0]])), [True, False, False])


def test_two_copies_that_went_different_ways_do_not_mistake_each_others_blocks():
    problem = rr.synthetic(items=40, dim=4, seed=0)
    model = rr.clicks.DocumentBased(problem.attraction)
    crashed = rr.RecurRank(problem.features, positions=4, rounds=3000, seed=0)
    play(crashed, model, 50)
    restored = rr.load(crashed.save(), problem.features)
    play(crashed, model, 3000, seed=1)
    play(restored, model, 3000, seed=2)
    assert restored.blocks[0].phase == crashed.blocks[0].phase > 1
    late, learned = restored.feedback.late, restored.feedback.learned
    for _ in range(20):
        restored.rank()
    for _ in range(20):
        restored.learn(crashed.rank(), [True] * 4)
    assert restored.feedback.learned == learned
    assert restored.feedback.late >= late + 20


def test_an_interrupted_decision_is_made_at_the_next_call(monkeypatch):
    import recurrank.rankers.recurrank as module

    problem = rr.synthetic(items=30, dim=3, seed=0)
    model = rr.clicks.DocumentBased(problem.attraction)
    smooth, rough = (rr.RecurRank(problem.features, positions=3, rounds=1000, seed=0) for _ in range(2))
    real = module.optimal_design

    def interrupted(*arguments):
        raise KeyboardInterrupt

    users = np.random.default_rng(0), np.random.default_rng(0)
    for t in range(3000):
        monkeypatch.setattr(module, "optimal_design", real)
        slates = smooth.rank(), rough.rank()
        assert slates[0].items.tolist() == slates[1].items.tolist(), t
        smooth.learn(slates[0], model.sample(slates[0], users[0]))
        monkeypatch.setattr(module, "optimal_design", interrupted)
        before = len(rough.history)
        try:
            rough.learn(slates[1], model.sample(slates[1], users[1]))
        except KeyboardInterrupt:
            assert len(rough.history) == before
            monkeypatch.setattr(module, "optimal_design", real)
            again = rr.load(rough.save(), problem.features)  # saved while a decision is due
            assert again.due
            again.rank()
            assert len(again.history) == before + 1
    assert len(smooth.history) == len(rough.history) >= 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_item_far_from_all_others_does_not_spoil_the_estimates(dtype):
    rng = np.random.default_rng(0)
    features = np.abs(rng.standard_normal((200, 2)))
    features *= 0.5 / np.linalg.norm(features, axis=1, keepdims=True)
    features[7] = [3e5, -3e5]
    problem = rr.Problem(features.astype(dtype), [1.0, 1.0])
    ranker = rr.RecurRank(problem.features, positions=3, rounds=100_000, seed=0)
    seen = rr.theory.watch(ranker, rr.clicks.DocumentBased(problem.attraction), problem.theta, 100_000)
    assert not seen.failed
    assert len(seen.verdicts) > 2


def test_items_that_are_all_zero_and_single_items_explore_nothing():
    features = np.vstack([np.eye(2), np.zeros((3, 2))])
    model = rr.clicks.DocumentBased([0.9, 0.6, 0.0, 0.0, 0.0])
    ranker = rr.RecurRank(features, positions=4, rounds=10**6, seed=0)
    rr.simulate(ranker, model, 200_000, seed=0)
    assert [(b.items.tolist(), b.progress) for b in ranker.blocks][:2] == [([0], 1.0), ([1], 1.0)]
    assert len(ranker.blocks[2].explored) == 0
    assert set(ranker.blocks[2].items.tolist()) == {2, 3, 4}
    assert ranker.rank().items[:2].tolist() == [0, 1]


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_the_scale_of_features_changes_no_decision(scale):
    """Powers of 2, which round nothing: items of length 1 tie in the design, and other scales part them by the last bit."""
    problem = rr.synthetic(items=40, dim=4, seed=0)
    model = rr.clicks.DocumentBased(problem.attraction)
    orders = []
    for features in (problem.features, problem.features * scale):
        ranker = rr.RecurRank(features, positions=4, rounds=20_000, seed=0)
        rr.simulate(ranker, model, 20_000, seed=0)
        orders.append([b.items.tolist() for b in ranker.blocks])
    assert orders[0] == orders[1]


def test_float32_and_rank_deficient_features():
    rng = np.random.default_rng(0)
    low = rr.transform(rng.standard_normal((60, 3)))
    features = (low @ rng.standard_normal((4, 9))).astype(np.float32)
    model = rr.clicks.DocumentBased(low @ rr.transform(rng.standard_normal(3)))
    ranker = rr.RecurRank(features, positions=3, rounds=30_000, seed=0)
    run = rr.simulate(ranker, model, 30_000, seed=0)
    assert set(model.best(3)) <= set(ranker.blocks[-1].items) | {a for b in ranker.blocks for a in b.items}
    assert run.regret[-1] < 0.5 * 30_000


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 2.0}, "delta"),
        ({"delta": 5e-324}, "delta"),
        ({"delta": "abc"}, "delta"),
        ({"delta": [0.1]}, "delta"),
        ({"tolerance": "x"}, "tolerance"),
        ({"design": "best"}, "design"),
        ({"elimination": "none"}, "elimination"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
    ],
)
def test_bad_options(change, field):
    with pytest.raises(ValueError, match=rf"^{field}: "):
        rr.RecurRank(np.eye(3), positions=2, rounds=100, seed=0, **change)


def test_adopting_a_slate_is_what_ranking_it_does_to_the_state():
    problem = rr.synthetic(items=30, dim=3, seed=1)
    model = rr.clicks.DocumentBased(problem.attraction)
    ranker = rr.RecurRank(problem.features, positions=4, rounds=3000, seed=0)
    learner = rr.RecurRank(problem.features, positions=4, rounds=3000, seed=0)
    rng, waiting = np.random.default_rng(0), []
    for _ in range(3000):
        slate = ranker.rank()
        learner.adopt(slate)
        waiting.append(slate)
        if len(waiting) > 10:
            answered = waiting.pop(int(rng.integers(10)))
            clicks = model.sample(answered, rng)
            for one in (ranker, learner):
                one.learn(answered, clicks)
        learner.rng.bit_generator.state = ranker.rng.bit_generator.state
        assert learner.save() == ranker.save()
    assert len(ranker.history) > 1

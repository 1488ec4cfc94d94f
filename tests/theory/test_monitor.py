"""The monitor: Lemma 1's frequency, Lemmas 2 to 5, and the split of the regret; and that it can say no."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr

EXAMINATION = 1 / np.arange(1, 5)


def watched(seed, *, elimination="proof", design="optimal", delta=0.1, rounds=20_000, clicks="position"):
    problem = rr.synthetic(items=30, dim=3, seed=seed)
    model = rr.clicks.make(clicks, problem.attraction, 4)
    ranker = rr.RecurRank(
        problem.features, positions=4, rounds=rounds, seed=seed, delta=delta, design=design, elimination=elimination
    )
    return rr.theory.watch(ranker, model, problem.theta, rounds, seed)


@pytest.mark.parametrize("design", ["optimal", "spanner"])
def test_failures_are_rare_and_lemmas_hold_without_them(design):
    """200 seeds, delta = 0.1: at most 20 may fail. Without a failure Lemmas 2 to 5 must hold in every block."""
    runs = [watched(seed, design=design, clicks=["position", "cascade"][seed % 2]) for seed in range(200)]
    assert sum(run.failed for run in runs) <= 20
    blocks = [verdict for run in runs if not run.failed for verdict in run.verdicts]
    assert len(blocks) > 400
    assert all(verdict.lemmas_hold for verdict in blocks)


def test_the_literal_rule_breaks_lemma_3_on_a_dense_catalogue():
    problem = rr.synthetic(items=2000, dim=3, seed=0)
    model = rr.clicks.DocumentBased(problem.attraction)
    ranker = rr.RecurRank(problem.features, positions=4, rounds=100_000, seed=0, elimination="literal")
    seen = rr.theory.watch(ranker, model, problem.theta, 100_000)
    assert not seen.failed
    assert any(not verdict.suboptimal for verdict in seen.verdicts)


def test_a_model_that_breaks_the_assumptions_is_seen_to_fail():
    """A block's examination depends on what is tried above it: estimates are off by more than Delta."""
    alpha = np.array([0.95, 0.9, 0.5, 0.45, 0.1, 0.05])
    model = rr.clicks.Factored(alpha, chi=lambda items, k: 1.0 if items[0] % 2 == 0 else 0.2)
    ranker = rr.RecurRank(np.eye(6), positions=4, rounds=50_000, seed=0)
    assert rr.theory.watch(ranker, model, alpha, 50_000).failed


def test_the_split_adds_up_to_the_regret():
    problem = rr.synthetic(items=12, dim=4, seed=2)
    model = rr.clicks.make("cascade", problem.attraction, 4)
    rankers = [rr.RecurRank(problem.features, positions=4, rounds=20_000, seed=1) for _ in range(2)]
    seen = rr.theory.watch(rankers[0], model, problem.theta, 20_000, seed=3)
    run = rr.simulate(rankers[1], model, 20_000, seed=3)
    assert seen.regret_first + seen.regret_lower == pytest.approx(run.regret[-1], abs=1e-6)
    finished = sum(v.regret_first + v.regret_lower for v in seen.verdicts)
    assert finished <= run.regret[-1] + 1e-6
    assert len(seen.verdicts) == len(rankers[0].history) > 0


def test_equation_relli1_bounds_the_first_position():
    """R^(1) of a block is at most 8 m Delta a round, R^(2) at most 4 m Delta (the proof's equations)."""
    for seed in range(5):
        problem = rr.synthetic(items=30, dim=3, seed=seed)
        model = rr.clicks.make("position", problem.attraction, 4)
        ranker = rr.RecurRank(problem.features, positions=4, rounds=20_000, seed=seed)
        seen = rr.theory.watch(ranker, model, problem.theta, 20_000, seed)
        width = {closed.id: closed.width for closed in ranker.history}
        assert not seen.failed
        for verdict in seen.verdicts:
            most = verdict.rounds * width[verdict.block] * 2.0**-verdict.phase
            assert verdict.regret_first <= 8 * most + 1e-9
            assert verdict.regret_lower <= 4 * most + 1e-9


def test_another_theta_is_refused():
    problem = rr.synthetic(items=10, dim=3, seed=0)
    ranker = rr.RecurRank(problem.features, positions=2, rounds=100, seed=0)
    with pytest.raises(ValueError, match=r"^theta: "):
        rr.theory.watch(ranker, rr.clicks.DocumentBased(problem.attraction), problem.theta * 0.5, 100)
    with pytest.raises(ValueError, match=r"^theta: shape is \(2,\)"):
        rr.theory.watch(ranker, rr.clicks.DocumentBased(problem.attraction), [0.5, 0.5], 100)

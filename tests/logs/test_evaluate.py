"""Off-policy evaluation: unbiased by exact enumeration, intervals, refusals, and policies."""

from __future__ import annotations

import io
import itertools
from contextlib import redirect_stdout
from math import perm

import numpy as np
import pytest

import recurrank as rr
from recurrank.logs.evaluate.intervals import bernstein, bootstrap, jackknife
from recurrank.logs.evaluate.policy import policy_of
from recurrank.logs.evaluate.report import evaluate
from recurrank.logs.evaluate.weights import marginal, prefix
from recurrank.logs.sessions import Sessions

L, K = 4, 2
ATTRACTION = np.array([0.7, 0.5, 0.3, 0.1])
IDS = list("abcd")


def uniform_log(pages, seed=0, model=None, **changes):
    """Pages drawn uniformly; clicks by the position-based model unless one is given."""
    rng = np.random.default_rng(seed)
    items = np.argsort(rng.random((pages, L)), axis=1)[:, :K].astype(np.int32)
    if model is None:
        clicks = (rng.random((pages, K)) < ATTRACTION[items] * [1, 0.5]).astype(np.uint8)
    else:
        clicks = np.array([model.sample(page, rng) for page in items], np.uint8)
    settings = {"propensity": np.full((pages, K), 1 / L), "joint": np.full(pages, 1 / perm(L, K))}
    return Sessions(np.zeros(pages, np.int32), items, clicks, ["q"], IDS, **{**settings, **changes})


def every_page():
    """Each page once: means over these are expectations under uniform logging."""
    items = np.array(list(itertools.permutations(range(L), K)), np.int32)
    pages = len(items)
    weights = {"propensity": np.full((pages, K), 1 / L), "joint": np.full(pages, 1 / pages)}
    return Sessions(np.zeros(pages, np.int32), items, np.zeros((pages, K), np.uint8), ["q"], IDS, **weights)


def test_weights_are_exact_in_expectation():
    """Under a cascade, marginal weights are wrong where what is above matters, and prefix weights are right."""
    log, policy = every_page(), policy_of(["b", "a"], every_page())
    cascade = rr.clicks.Cascade(ATTRACTION)
    expected = np.array([cascade.expected(page) for page in log.items])
    truth = cascade.expected([1, 0])
    np.testing.assert_allclose((prefix(log, policy) * expected).mean(axis=0), truth)
    assert not np.allclose((marginal(log, policy) * expected).mean(axis=0), truth)
    position = rr.clicks.PositionBased(ATTRACTION, [1, 0.5])
    expected = np.array([position.expected(page) for page in log.items])
    np.testing.assert_allclose((marginal(log, policy) * expected).mean(axis=0), position.expected([1, 0]))


def test_every_estimator_finds_the_truth():
    log = uniform_log(20_000)
    truth = ATTRACTION[2] + ATTRACTION[0] / 2
    found = evaluate(log, ["c", "a"], "iips,sn-iips,rips,sn-rips,cascade-dr,position,direct", model="pbm")
    for row in found.rows:
        assert not row.refused
        assert row.low < row.value < row.high
        assert abs(row.value - truth) < 4 * row.error, row
        assert row.error < 0.05
    errors = {row.estimator: row.error for row in found.rows}
    assert errors["cascade-dr"] < errors["rips"]
    assert errors["position"] < errors["iips"] < errors["rips"]
    assert found.overlap == [1.0, 1.0]


def test_what_was_shown_earns_what_it_earned():
    log = uniform_log(500)
    for row in evaluate(log, "shown", "iips,rips,cascade-dr").rows:
        assert row.value == pytest.approx(log.clicks.sum() / 500)


def test_a_log_without_probabilities_refuses_weights_and_answers_by_models():
    log = uniform_log(2000, propensity=None, joint=None)
    rows = {row.estimator: row for row in evaluate(log, ["a", "b"]).rows}
    assert "no propensities" in rows["iips"].refused
    assert np.isnan(rows["iips"].value)
    assert not rows["position"].refused


@pytest.mark.parametrize(
    ("changes", "estimator", "reason"),
    [
        ({"joint": None}, "rips", "no joint probabilities"),
        ({"joint": np.full(2000, 0.5)}, "rips", "do not follow from the others"),
    ],
)
def test_prefixes_need_joint_probabilities_that_determine_them(changes, estimator, reason):
    assert reason in evaluate(uniform_log(2000, **changes), ["a", "b"], estimator).rows[0].refused


def test_independent_positions_determine_prefixes():
    log = uniform_log(2000, joint=np.full(2000, 1 / L**K))
    assert not evaluate(log, ["a", "b"], "rips").rows[0].refused


def test_a_policy_that_the_log_never_shows_is_refused():
    log = uniform_log(2000)
    log = log.take(log.items[:, 0] != 3)
    row = evaluate(log, ["d", "a"], "iips").rows[0]
    assert "position 1: weights are 0.000 in mean" in row.refused


def test_too_few_pages_are_refused():
    assert "effective sample size" in evaluate(uniform_log(60), ["a", "b"], "rips").rows[0].refused


def test_policies(tmp_path):
    log = uniform_log(100)
    (tmp_path / "order.txt").write_text("b\na\n")
    (tmp_path / "scores.csv").write_text("item,score\nd,3\na,2\nb,1\n")
    assert policy_of(f"order:{tmp_path / 'order.txt'}", log).target.tolist() == [[codes(log, "b"), codes(log, "a")]]
    assert policy_of("order:c,d,a", log).target.tolist() == [[codes(log, "c"), codes(log, "d")]]
    assert policy_of(f"scores:{tmp_path / 'scores.csv'}", log).target.tolist() == [[codes(log, "d"), codes(log, "a")]]
    (tmp_path / "scores.csv").write_text("query,item,score\nq,a,1\nq,d,9\n,a,100\n")
    assert policy_of(f"scores:{tmp_path / 'scores.csv'}", log).target.tolist() == [[codes(log, "d"), codes(log, "a")]]


def codes(log, name):
    return log.item_ids.index(name)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("order:a,z", "item 'z' is not in the log"),
        ("order:a,a", "stands twice"),
        ("best", "'best' is unknown"),
        ("scores:none.csv", "no such file"),
        ("order:", "names no items"),
    ],
)
def test_a_policy_that_is_none_is_one_line(policy, said):
    with pytest.raises(ValueError, match=said):
        evaluate(uniform_log(100), policy)


def test_scores_name_the_row_that_is_wrong(tmp_path):
    (tmp_path / "scores.csv").write_text("item,score\na,1\nb,x\n")
    with pytest.raises(ValueError, match=r"row 3, column 'score': 'x' is not a number"):
        evaluate(uniform_log(100), f"scores:{tmp_path / 'scores.csv'}")


def test_a_short_order_earns_from_its_positions_only():
    """A policy of one item earns at the first position what that item does."""
    log = uniform_log(20_000)
    row = evaluate(log, ["b"], "iips").rows[0]
    assert abs(row.value - ATTRACTION[1]) < 4 * row.error


def test_a_ranker_is_run_on_the_fitted_model():
    log = uniform_log(3000)
    found = evaluate(log, "ranker:recurrank", "direct,iips", model="pbm")
    assert found.rows[0].estimator == "direct (pbm)"
    assert log.clicks.sum() / 3000 - 0.1 < found.rows[0].value < 0.7 + 0.25 + 0.05
    assert "only the direct method" in found.rows[1].refused


def test_intervals():
    rng = np.random.default_rng(0)
    values = rng.random(20_001)
    error, low, high = bootstrap(values, None)
    assert error == pytest.approx(values.std() / np.sqrt(len(values)), rel=0.15)
    assert low < values.mean() < high
    assert bernstein(values, 1.0)[1] < low
    groups = values[:20_000].reshape(20, -1)
    without = np.array([np.delete(groups, g, axis=0).mean() for g in range(20)])
    assert jackknife(groups.mean(), without)[0] == pytest.approx(groups.mean(axis=1).std(ddof=1) / np.sqrt(20))


def test_bad_settings_are_one_line():
    with pytest.raises(ValueError, match="'xyz' is unknown"):
        evaluate(uniform_log(100), "shown", "xyz")
    with pytest.raises(ValueError, match="choose bootstrap or bernstein"):
        evaluate(uniform_log(100), "shown", interval="wide")


def test_a_figure_has_the_estimates():
    found = evaluate(uniform_log(2000), ["a", "b"], "iips,sn-iips")
    assert [label.get_text() for label in found.figure().axes[0].get_yticklabels()] == ["iips", "sn-iips"]
    assert found.to_frame()["estimator"].tolist() == ["iips", "sn-iips"]


def two_blocks(pages, seed=0):
    """Blocks of two positions each, as RecurRank draws them: each tries one of its two items first, the other is below."""
    rng = np.random.default_rng(seed)
    items, given, marginal = np.empty((pages, 4), np.int32), np.ones((pages, 4)), np.empty((pages, 4))
    for first, share in ((0, 0.7), (2, 0.4)):
        tried = (rng.random(pages) >= share).astype(np.int32)
        chance = np.where(tried == 0, share, 1 - share)
        items[:, first], items[:, first + 1] = first + tried, first + 1 - tried
        given[:, first] = marginal[:, first] = marginal[:, first + 1] = chance
    model = rr.clicks.Cascade(ATTRACTION)
    clicks = np.array([model.sample(page, rng) for page in items], np.uint8)
    chances = {"propensity": marginal, "joint": given.prod(axis=1), "conditional": given}
    return model, Sessions(np.zeros(pages, np.int32), items, clicks, ["q"], IDS, **chances)


def test_conditional_probabilities_answer_for_blocks():
    """The marginal and joint ones do not tell where blocks begin."""
    model, log = two_blocks(4000)
    for row in evaluate(log, ["b", "a", "c", "d"], "rips,sn-rips,cascade-dr").rows:
        assert not row.refused
        assert abs(row.value - model.expected([1, 0, 2, 3]).sum()) < 4 * row.error
    unknown = Sessions(log.query, log.items, log.clicks, ["q"], IDS, propensity=log.propensity, joint=log.joint)
    assert "do not follow" in evaluate(unknown, ["b", "a", "c", "d"], "rips").rows[0].refused


def test_a_policy_that_leaves_positions_empty_is_noted():
    log = uniform_log(2000)
    [note] = evaluate(log, ["c"], "iips").notes
    assert note.startswith("the policy fills 1 of 2 positions on 100% of the pages, and earns nothing at the others")
    assert note.endswith(f"at those that it fills: {log.clicks[:, 0].mean():.4f} clicks per page")
    assert evaluate(log, ["c", "a"], "iips").notes == []
    assert evaluate(every_page(), ["c", "a"], "iips").notes == ["no clicks in the log"]


def test_a_reason_is_said_once():
    from recurrank.cli.evaluate import _print

    log = uniform_log(2000, propensity=None, joint=None)
    out = io.StringIO()
    with redirect_stdout(out):
        _print(evaluate(log, ["c", "a"]))
    refusals = [line.partition(" refused: ")[0] for line in out.getvalue().splitlines() if " refused: " in line]
    assert refusals == ["iips, sn-iips", "rips, sn-rips, cascade-dr"]

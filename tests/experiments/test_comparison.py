"""``rr.compare``: the same numbers as the command, with intervals, paired differences, a frame, a figure and LaTeX."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.experiments.comparison import Comparison, Difference, holm, interval

SMALL = {"runs": 4, "rounds": 300, "items": 30, "dim": 3, "positions": 3, "jobs": 1}


@pytest.fixture(scope="module")
def found():
    return rr.compare(["random", "epsilon-greedy", "oracle"], ["cascade", "position-based"], **SMALL)


def test_one_row_per_environment_and_ranker(found):
    assert [(row.environment, row.ranker) for row in found.rows] == [
        (clicks, ranker) for clicks in ("cascade", "position-based") for ranker in ("random", "epsilon-greedy", "oracle")
    ]
    assert all(row.runs == 4 for row in found.rows)


def test_differences_are_paired_by_run(found):
    by_run = {(result.environment, result.ranker, result.run): result.regret[-1] for result in found.results}
    first = found.differences()[0]
    assert (first.environment, first.ranker, first.other) == ("cascade", "random", "epsilon-greedy")
    gaps = np.array([by_run["cascade", "random", n] - by_run["cascade", "epsilon-greedy", n] for n in range(4)])
    assert (first.mean, first.low, first.high) == pytest.approx(interval(gaps))
    assert len(found.differences()) == 6  # three pairs in each of two environments


def test_pairs_are_of_runs_that_both_have(found):
    """Without some runs the others are still compared with those of their number."""
    gone = {("random", 0), ("epsilon-greedy", 3)}
    part = Comparison([row for row in found.results if (row.ranker, row.run) not in gone and row.environment == "cascade"])
    final = {(row.ranker, row.run): row.regret[-1] for row in part.results}
    gaps = [final["random", run] - final["epsilon-greedy", run] for run in (1, 2)]
    assert part.differences()[0] == Difference("cascade", "random", "epsilon-greedy", *interval(np.array(gaps)), 2)
    assert [one.runs for one in part.differences()] == [one.runs for one in part.tests()] == [2, 3, 3]
    assert part.tests()[0].difference == pytest.approx(np.mean(gaps))
    apart = Comparison([row for row in part.results if (row.ranker == "random") == (row.run < 2)])
    said = r"^results: cascade: random has \[1\] and epsilon-greedy has \[2\]; give results with runs in common$"
    for ask in (apart.differences, apart.tests):
        with pytest.raises(ValueError, match=said):
            ask()


def test_one_run_has_no_interval_in_any_table(found):
    one = Comparison([row for row in found.results if row.run == 0])
    assert "inf" not in one._repr_html_()
    assert one._repr_html_().count("<td>-</td>") == len(one.rows)
    assert one.to_latex().count(r" & - \\") == len(one.rows)


def test_intervals_cover_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = sum(low <= 1.0 <= high for _, low, high in (interval(rng.normal(1, 2, 5)) for _ in range(2000)))
    assert abs(covered / 2000 - 0.95) < 0.015  # three standard errors
    assert interval(np.array([3.0])) == (3.0, -np.inf, np.inf)


def test_as_a_frame_a_figure_latex_and_html(found):
    table = found.to_frame()
    assert list(table["ranker"]) == [row.ranker for row in found.rows]
    assert ((table["low"] <= table["regret_mean"]) & (table["regret_mean"] <= table["high"])).all()
    assert [panel.get_title() for panel in found.figure().axes] == ["cascade", "position-based"]
    assert found.to_latex().count(r"\\") == 1 + len(found.rows)
    assert found.to_latex().startswith(r"% needs \usepackage{booktabs}")
    assert found._repr_html_().count("<tr>") == 1 + len(found.rows)


def test_finished_runs_are_kept(tmp_path, found):
    pytest.importorskip("pyarrow")
    first = rr.compare("random", "cascade", out=tmp_path, **SMALL)
    before = (tmp_path / "results.parquet").stat().st_mtime_ns
    again = rr.compare("random", "cascade", out=tmp_path, **SMALL)
    assert before == (tmp_path / "results.parquet").stat().st_mtime_ns
    assert [list(r.regret) for r in again.results] == [list(r.regret) for r in first.results]


def test_bad_input_is_one_line():
    with pytest.raises(ValueError, match="rankers: 'nobody' is unknown"):
        rr.compare("nobody", **SMALL)
    with pytest.raises(ValueError, match="clicks: 'never' is not a click model"):
        rr.compare("random", "never", **SMALL)
    ranker = rr.rankers.make("random", features=np.eye(5), positions=2, rounds=100, seed=0)
    for given in (ranker, [ranker], [type(ranker)], type(ranker)):
        with pytest.raises(ValueError, match=r"^rankers: \w+ is not a name; give its name, 'random'"):
            rr.compare(given, **SMALL)
    with pytest.raises(ValueError, match=r"^clicks: Cascade is not a name"):
        rr.compare("random", [rr.clicks.Cascade([0.5, 0.4])], **SMALL)
    with pytest.raises(ValueError, match=r"^clicks: none given; give one name or more"):
        rr.compare("random", [], **SMALL)
    with pytest.raises(ValueError, match=r"^rankers: none given"):
        rr.compare(" , ", **SMALL)
    with pytest.raises(ValueError, match=r"^features: ndarray is not a file; give the path"):
        rr.compare("random", features=np.eye(5))
    with pytest.raises(ValueError, match=r"^jobs: 'x' is not a number of processes"):
        rr.compare("random", **{**SMALL, "jobs": "x"})


def test_a_run_as_a_frame_and_in_a_notebook():
    ranker = rr.rankers.make("random", features=np.eye(5), positions=2, rounds=100, seed=0)
    run = rr.simulate(ranker, rr.clicks.Cascade([0.5, 0.4, 0.3, 0.2, 0.1]), rounds=100)
    table = run.to_frame()
    assert list(table.columns) == ["rounds", "regret", "clicks"]
    assert table["regret"].iloc[-1] == run.regret[-1]
    assert "100 rounds" in run._repr_html_()
    assert run._repr_html_().count(",") >= len(run.rounds)  # a point per checkpoint


def test_paired_tests_are_corrected_for_their_number(found):
    from scipy.stats import ttest_rel

    tests = found.tests()
    assert len(tests) == 6
    final = {key: [r.regret[-1] for r in found.results if (r.environment, r.ranker) == key] for key in found.intervals()}
    for test in tests:
        first, second = final[test.environment, test.ranker], final[test.environment, test.other]
        assert test.p == pytest.approx(ttest_rel(first, second).pvalue)
        assert test.p <= test.holm <= 1
    ordered = sorted(tests, key=lambda test: test.p)
    assert ordered[0].holm == pytest.approx(min(1, 6 * ordered[0].p))
    for (i, test), before in zip(enumerate(ordered[1:], 1), ordered, strict=False):
        assert test.holm == pytest.approx(max(before.holm, min(1, (6 - i) * test.p)))


def test_holm_errs_rarely_over_all_tests():
    """Ten true hypotheses: any is rejected in at most 5 % of 2,000 families, three standard errors."""
    rng = np.random.default_rng(0)
    wrong = sum((holm(rng.random(10)) < 0.05).any() for _ in range(2000))
    assert wrong / 2000 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)
    assert np.isnan(holm(np.array([np.nan, 0.5]))[0])
    assert holm(np.array([np.nan, 0.5]))[1] == 0.5


def test_bootstrap_intervals(found):
    rng = np.random.default_rng(0)
    covered = sum(low <= 1 <= high for _, low, high in (interval(rng.normal(1, 2, 40), "bootstrap") for _ in range(200)))
    assert covered >= 200 * 0.95 - 3 * np.sqrt(200 * 0.95 * 0.05)
    assert found.intervals("bootstrap") == found.intervals("bootstrap")
    assert found.to_latex("bootstrap") != found.to_latex()
    with pytest.raises(ValueError, match=r"^method: 'guess' is unknown"):
        found.intervals("guess")


def test_a_figure_in_a_papers_size_and_how_to_repeat_it(found):
    assert found.figure(width=6.75, height=2).get_size_inches().tolist() == [6.75, 2]
    assert "cascade random: 300; L = 30, d = 3, K = 3; synthetic; runs 0 to 3" in found.reproduce()
    call = "recurrank.compare(['random', 'epsilon-greedy', 'oracle'], ['cascade', 'position-based'], runs=4, rounds=300"
    assert f"    {call}, items=30, dim=3, positions=3)" in found.reproduce().splitlines()


def test_bands_of_the_figure_are_the_intervals(found):
    panel = found.figure().axes[0]
    low, high = found.intervals()["cascade", "random"][1:]
    ends = panel.collections[0].get_paths()[0].vertices[:, 1]
    assert min(abs(ends - low)) < 1e-9
    assert ends.max() == pytest.approx(high)

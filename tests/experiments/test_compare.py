"""Comparing rankers on a problem of one's own."""

from __future__ import annotations

import numpy as np
import pytest

import recurrank as rr
from recurrank.experiments import compare
from recurrank.experiments.runner import run

SIZES = {"positions": 3, "rounds": 500, "runs": 2}


@pytest.fixture
def files(tmp_path):
    problem = rr.synthetic(items=20, dim=3, seed=5)
    np.save(tmp_path / "x.npy", problem.features)
    np.save(tmp_path / "alpha.npy", problem.attraction)
    np.save(tmp_path / "theta.npy", problem.theta)
    return tmp_path


def test_attraction_and_theta_say_the_same(files):
    suites = [
        compare.suite("random,oracle", "cascade", features=files / "x.npy", **{truth: files / f"{name}.npy"}, **SIZES)
        for truth, name in (("attraction", "alpha"), ("theta", "theta"))
    ]
    one, two = (suite.run(jobs=1).results for suite in suites)
    assert [row.regret.tolist() for row in one] == [row.regret.tolist() for row in two]
    assert [row.id for row in one] == [f"compare/cascade/{r}/{n}" for r in ("random", "oracle") for n in (0, 1)]
    assert one[2].regret[-1] == pytest.approx(0)
    assert (one[0].items, one[0].dim) == (20, 3)
    linear = suites[0].experiments[0].environment.source.truth
    assert linear.startswith("attraction: alpha.npy, linear in the features up to ")
    assert float(linear.split()[-1]) < 1e-9


def test_without_the_truth_a_theta_is_drawn_a_run(files):
    experiments = compare.suite("random", "pbm,document", features=files / "x.npy", **SIZES).experiments
    assert [e.environment.name for e in experiments] == ["position-based"] * 2 + ["document-based"] * 2
    seeds = np.random.SeedSequence(0).spawn(2)
    source = experiments[0].environment.source
    a, b = (source.setting(run_number, seed, 3) for run_number, seed in enumerate(seeds))
    assert a.features.tolist() != b.features.tolist()  # in an order of its own
    assert sorted(a.features.tolist()) == sorted(b.features.tolist())
    assert a.features.shape == (20, 4)
    assert sorted(a.model.attraction) != sorted(b.model.attraction)
    assert "random theta" in source.truth


def test_a_seed_numbers_the_runs(files):
    first = compare.suite("random", "cascade", features=files / "x.npy", **SIZES).experiments
    second = compare.suite("random", "cascade", features=files / "x.npy", seed=1, **SIZES).experiments
    assert [e.run for e in second] == [1, 2]
    assert run([first[1]], jobs=1)[0].regret.tolist() == run([second[0]], jobs=1)[0].regret.tolist()


def test_a_changed_file_is_other_data(files):
    before = compare.suite("random", "cascade", features=files / "x.npy", **SIZES).experiments[0].environment.source.data
    np.save(files / "x.npy", np.load(files / "x.npy")[::-1])
    after = compare.suite("random", "cascade", features=files / "x.npy", **SIZES).experiments[0]
    assert after.environment.source.data != before


def test_synthetic_problems_without_a_file():
    experiments = compare.suite("random", "cascade", items=30, dim=4, **SIZES).experiments
    setting = experiments[0].environment.source.setting(0, np.random.SeedSequence(0), 3)
    assert setting.features.shape == (30, 4)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"features": "nowhere.npy"}, "no such file"),
        ({"features": "x.npy", "attraction": "nowhere.npy"}, "no such file"),
        ({"features": "x.npy", "attraction": "theta.npy"}, "it should be 20 numbers"),
        ({"features": "x.npy", "theta": "alpha.npy"}, "it should be 3 numbers"),
        ({"features": "x.npy", "theta": "theta.npy", "attraction": "alpha.npy"}, "^attraction: "),
        ({"theta": "theta.npy"}, "^features: "),
        ({"features": "x.npy", "clicks": "moon"}, "^clicks: "),
        ({"features": "x.npy", "clicks": ""}, "^clicks: "),
        ({"features": "x.npy", "rankers": "moon"}, "^rankers: "),
        ({"features": "x.npy", "positions": 21}, "^positions: "),
        ({"features": "x.npy", "runs": 0}, "^runs: "),
        ({"features": "x.npy", "seed": -1}, "^seed: "),
        ({"features": "junk.npy"}, "junk.npy"),
        ({"features": "x.npy", "attraction": "junk.npy"}, "junk.npy"),
        ({"features": "x.npy", "attraction": "big.npy"}, "big.npy"),
        ({"features": "zero.npy"}, "zero"),
    ],
)
def test_bad_problems(files, changes, says):
    (files / "junk.npy").write_bytes(b"junk")
    np.save(files / "big.npy", np.full(20, 1.5))
    np.save(files / "zero.npy", np.eye(5)[[0, 1, 2, 3]] * [[1], [1], [1], [0]])
    changes = {k: files / v if k in ("features", "attraction", "theta") else v for k, v in changes.items()}
    with pytest.raises(ValueError, match=says):
        compare.suite(**{"rankers": "random", "clicks": "cascade", **SIZES, **changes})

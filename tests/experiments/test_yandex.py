"""Click models fitted to queries: every argument finds its place, and bad files get one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import recurrank as rr
from recurrank.clicks.assumptions import check
from recurrank.experiments import yandex
from recurrank.experiments.runner import run
from recurrank.seeds import stream

REAL = Path(__file__).parents[3] / "shared" / "data" / "yandex-click-models.json"


def query(seed: int, documents: int = 10) -> dict:
    """A query as the file has them, with made-up numbers."""
    rng = np.random.default_rng(seed)

    def attraction() -> list[float]:
        return rng.uniform(0.01, 0.5, documents).tolist()

    falling = np.sort(rng.uniform(0.2, 1.0, documents))[::-1].tolist()
    gamma = np.full((documents, documents), 0.2)
    for k in range(documents):
        gamma[k, :k] = rng.uniform(0.1, 1.0, k)
        gamma[k, -1] = 1 / (k + 1)
    arguments = {
        "PBM": [attraction(), falling],
        "CM": [attraction()],
        "DCM": [attraction(), falling],
        "DBN": [attraction(), attraction(), 0.03],
        "CCM": [attraction(), 0.99, 0.9, 0.2],
        "UBM": [attraction(), gamma.tolist()],
    }
    return {"query": str(seed), "models": {name: {"args": values} for name, values in arguments.items()}}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "queries.json"
    file.write_text(json.dumps([query(seed) for seed in range(3)]))
    return file


def literal_examination(name: str, args: list, items: list[int]) -> list[float]:
    """Marginal examination of each position, written from the file's description by following one user at a time."""
    attraction, chi = args[0], []
    states = {(None, True): 1.0}  # (last click, still reading) -> probability, before each position
    for k, item in enumerate(items):
        alpha, chi_k, after = attraction[item], 0.0, {}

        def add(last, reading, p, after=after):
            after[last, reading] = after.get((last, reading), 0.0) + p

        for (last, reading), p in states.items():
            if not reading:
                add(last, False, p)
                continue
            look = 1.0
            if name == "PBM":
                look = args[1][k]
            if name == "UBM":
                look = args[1][k][-1 if last is None else last]
            chi_k += p * look
            go_on = {"PBM": 1.0, "UBM": 1.0, "CM": 0.0}.get(name)
            if name == "DCM":
                go_on = args[1][k]
            if name == "DBN":
                go_on = (1 - args[1][item]) * (1 - args[2])
            if name == "CCM":
                go_on = args[2] * (1 - alpha) + args[3] * alpha
            without = 1 - args[2] if name == "DBN" else args[1] if name == "CCM" else 1.0
            add(k, True, p * look * alpha * go_on)
            add(k, False, p * look * alpha * (1 - go_on))
            add(last, True, p * ((1 - look) + look * (1 - alpha) * without))
            add(last, False, p * look * (1 - alpha) * (1 - without))
        chi.append(chi_k)
        states = after
    return chi


@pytest.mark.parametrize("name", yandex.MODELS)
def test_every_argument_finds_its_place(path, name):
    source = yandex.read_queries(path)[name]
    for run_number in range(3):
        seed = np.random.SeedSequence(run_number)
        setting = source.setting(run_number, seed, 5)
        order = stream(seed, "items").permutation(10)
        args = json.loads(path.read_text())[run_number]["models"][name]["args"]
        assert setting.features.tolist() == np.eye(10).tolist()
        assert setting.model.attraction.tolist() == np.array(args[0])[order].tolist()
        rng = np.random.default_rng(run_number)
        for _ in range(10):
            slate = rng.permutation(10)[:5]
            expected = literal_examination(name, args, order[slate].tolist())
            np.testing.assert_allclose(setting.model.examine(slate), expected, atol=1e-12)


def test_rankers_run_on_them(path):
    experiments = yandex.suite(path, "PBM,UBM", "recurrank,oracle,random", runs=3, rounds=500).experiments
    assert experiments[0].id == "yandex/PBM/recurrank/0"
    rows = run(experiments, jobs=1)
    assert len(rows) == 18
    assert {(row.items, row.dim, row.positions) for row in rows} == {(10, 10, 5)}
    regret = {ranker: sum(r.regret[-1] for r in rows if r.ranker == ranker) for ranker in ("oracle", "random", "recurrank")}
    assert {row.optimum for row in rows} == {"exact"}
    assert min(row.regret.min() for row in rows) >= -1e-9
    assert 0 < regret["oracle"] < regret["random"]  # these examinations do not fall, so that attraction is not the best order
    with pytest.raises(ValueError, match=r"^runs: 4 are more than the 3 independent problems of PBM \(3 queries"):
        yandex.suite(path, "PBM", "random", runs=4)


def test_rankers_run_on_models_fitted_to_a_log(tmp_path):
    """Of two queries the one with 12 items takes part, with its ten most attractive."""
    rng = np.random.default_rng(0)
    items = np.argsort(rng.random((600, 12)), axis=1)[:, :6].astype(np.int32)
    query_of = (np.arange(600) % 4 == 0).astype(np.int32)
    items[query_of == 1] = np.argsort(rng.random((150, 6)), axis=1)
    clicks = (rng.random((600, 6)) < np.linspace(0.8, 0.1, 12)[items] * np.linspace(1, 0.4, 6)).astype(np.uint8)
    log = rr.Sessions(query_of, items, clicks, ["large", "small"], [f"i{n}" for n in range(12)])
    fitted = rr.fit(log, "pbm,sdbn", split="none")
    fitted.save(tmp_path / "fitted.json")
    source = yandex.read_queries(tmp_path / "fitted.json")["SDBN"]
    assert source.queries == ("large",)
    model = source.setting(0, np.random.SeedSequence(0), 5).model
    best = np.sort(fitted.models()["sdbn"]["large"].attraction)[-10:]
    assert np.sort(model.attraction).tolist() == best.tolist()
    rows = run(yandex.suite(tmp_path / "fitted.json", "PBM,SDBN", "oracle,random", runs=1, rounds=200).experiments, jobs=1)
    assert len(rows) == 4


@pytest.mark.skipif(not REAL.exists(), reason="the file of fitted models is not at hand")
def test_the_real_file_is_read_whole():
    sources = yandex.read_queries(REAL)
    assert [source.units for source in sources.values()] == [30] * 6
    pbm = sources["PBM"].setting(0, np.random.SeedSequence(0), 5).model
    assert all(finding.holds for finding in check(pbm, 5))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file"),
        ("[", "not a file of fitted click models"),
        ("[]", "not a file of fitted click models"),
        ("{}", "not a file of fitted click models"),
        (json.dumps([{"query": "1", "models": {}}]), "no 'pbm'"),
        (json.dumps([query(0, documents=3)]), "no query with 10 items"),
        (json.dumps([query(0)]).replace("0.03", "3"), "not a file of fitted click models"),
    ],
)
def test_bad_files(tmp_path, content, says):
    file = tmp_path / "x.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ValueError, match=says) as caught:
        yandex.suite(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"models": "XYZ"}, "models"), ({"models": ""}, "models"), ({"rankers": "x"}, "rankers"), ({"runs": 0}, "runs")],
)
def test_bad_plans(path, changes, field):
    with pytest.raises(ValueError, match=f"^{field}: "):
        yandex.suite(path, **changes)

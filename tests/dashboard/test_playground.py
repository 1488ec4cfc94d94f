"""The playground without a browser: what it takes and refuses, whether its runs are the library's, what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import httpx
import numpy as np
import pytest
from tests.dashboard.running import Server, events, ranker
from tests.serving.running import until

import recurrank as rr
from recurrank.dashboard import live
from recurrank.dashboard.pages import render
from recurrank.dashboard.playground import runner
from recurrank.dashboard.playground.routes import Playground
from recurrank.dashboard.playground.setup import DEFAULTS, PARAMETERS, YourLog, options, read
from recurrank.dashboard.playground.worker import _model, _problem, play

SMALL = {"items": "50", "positions": "3", "rounds": "2000", "clicks": "cascade", "rankers": "recurrank,random"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('store')}/x.db")
    yield running
    running.stop()


def test_the_defaults_are_a_set_up():
    setup, errors = read({})
    assert errors == {}
    assert (setup.items, setup.rounds, len(setup.rankers)) == (10_000, 1_000_000, 3)
    assert set(DEFAULTS) >= {parameter.field for of_model in PARAMETERS.values() for parameter in of_model}
    assert set(PARAMETERS) <= set(rr.clicks.names())


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"items": "1"}, "items"),
        ({"items": "10000000"}, "items"),
        ({"items": "1000000", "dim": "100"}, "dim"),
        ({"items": "5", "positions": "6"}, "positions"),
        ({"positions": "1.5"}, "positions"),
        ({"rounds": "1e6"}, "rounds"),
        ({"rounds": "99999999999999999999"}, "rounds"),
        ({"rankers": ""}, "rankers"),
        ({"rankers": "recurrank,nobody"}, "rankers"),
        ({"rankers": ",".join(rr.rankers.names("catalogue"))}, "rankers"),
        ({"clicks": "telepathy"}, "clicks"),
        ({"problem": "netflix"}, "problem"),
        ({"seed": "-1"}, "seed"),
        ({"pbm_power": "nan"}, "pbm_power"),
        ({"clicks": "dynamic-bayesian", "dbn_continuation": "1.1"}, "dbn_continuation"),
        ({"colour": "red"}, "form"),
        ({"recurrank.nope": "1"}, "form"),
        ({"recurrank.design": "best"}, "recurrank.design"),
        ({"toprank.delta": "7"}, "toprank.delta"),
        ({"rankers": "pbm-ucb", "positions": "2", "pbm-ucb.examination": "1/0.5/0.2"}, "pbm-ucb.examination"),
    ],
)
def test_an_error_belongs_to_its_field(given, field):
    setup, errors = read(given)
    assert setup is None
    assert list(errors) == [field]
    assert errors[field]


def test_options_are_those_that_the_rankers_declare():
    setup, errors = read(
        {"rankers": "recurrank,toprank", "recurrank.design": "spanner", "toprank.delta": "", "pie.explore_at": "x"}
    )
    assert errors == {}
    assert setup.options == {"recurrank": {"design": "spanner"}, "toprank": {}}
    fields = {field for several in options().values() for field, _ in several}
    assert {"recurrank.delta", "pbm-ucb.examination"} <= fields
    assert "oracle.attraction" not in fields
    form = Playground().form({"recurrank.design": "spanner"})
    text = render("playground.html", "/playground", script="playground.js", **form).body.decode()
    assert {field for field in fields if f'name="{field}"' in text} == fields
    assert '<option value="spanner" selected>' in text


def test_the_numbers_are_those_of_the_library():
    setup, _ = read(SMALL)
    said: list[tuple[str, dict]] = []
    play(setup, lambda name, document: said.append((name, document)))
    assert [name for name, _ in said][:2] == ["start", "ready"]
    assert said[-1][0] == "done"
    points = [document for name, document in said if name == "points" and document["ranker"] == "recurrank"]
    rounds, regret = ([value for one in points for value in one[what]] for what in ("rounds", "regret"))
    assert rounds == list(range(0, 2001, 10))
    assert regret == sorted(regret)
    problem = _problem(setup)
    ranker = rr.RecurRank(problem.features, 3, 2000, setup.seed)
    run = rr.simulate(ranker, _model(setup, problem), 2000, setup.seed, checkpoints=[2000])
    assert regret[-1] == pytest.approx(run.regret[-1])
    flow = [document for name, document in said if name == "flow"][-1]
    assert flow["boxes"][0]["items"] == 50


@pytest.mark.parametrize("clicks", rr.clicks.names())
def test_every_click_model_takes_its_parameters(clicks):
    given = {parameter.field: str(parameter.default) for parameter in PARAMETERS.get(clicks, [])}
    setup, errors = read({**SMALL, "clicks": clicks, **given})
    assert errors == {}
    problem = _problem(setup)
    slate = np.arange(3)
    usual = rr.clicks.make(clicks, problem.attraction, 3)
    np.testing.assert_allclose(_model(setup, problem).examine(slate), usual.examine(slate))


def test_requests_are_an_environment():
    given = {"problem": "requests", "candidates": "12", "dim": "3", "positions": "3", "rounds": "2000", "clicks": "cascade"}
    setup, errors = read({**given, "rankers": "anchored,first-thompson"})
    assert errors == {}
    said: list[tuple[str, dict]] = []
    play(setup, lambda name, document: said.append((name, document)))
    assert said[0] == ("start", {"items": 2000, "dim": 3, "rounds": 2000, "best": None, "warning": ""})
    assert said[-1][0] == "done"
    regret = [value for name, one in said if name == "points" and one["ranker"] == "anchored" for value in one["regret"]]
    stream = rr.requests.Clusters(items=2000, dim=3, candidates=12)
    ranker = rr.Anchored(dim=3, positions=3, rounds=2000, seed=0)
    run = rr.simulate(ranker, clicks="cascade", requests=stream, rounds=2000, seed=0)
    assert regret[-1] == pytest.approx(run.regret[-1])
    for wrong, field in (
        ({"rankers": "balanced"}, "rankers"),
        ({"candidates": "2"}, "positions"),
        ({"candidates": "x"}, "candidates"),
    ):
        assert list(read({**given, "rankers": "anchored", **wrong})[1]) == [field]
    assert list(read({"rankers": "first-thompson"})[1]) == ["rankers"]


def test_movielens_comes_with_the_package():
    setup, _ = read({**SMALL, "problem": "movielens", "items": "nonsense"})
    assert (setup.items, setup.dim) == (1000, 5)
    assert _problem(setup).features.shape == (1000, 5)


def test_your_log_stands_beside_the_presets(tmp_path):
    """The users are those of the fitted model, the items those of its largest query; what does not fit is told."""
    rng = np.random.default_rng(0)
    items = np.argsort(rng.random((400, 8)), axis=1)[:, :4].astype(np.int32)
    clicks = (rng.random((400, 4)) < np.linspace(0.8, 0.1, 8)[items]).astype(np.uint8)
    log = rr.Sessions(np.zeros(400, np.int32), items, clicks, ["q"], [f"i{n}" for n in range(8)])
    rr.fit(log, "pbm,cm", split="none").save(tmp_path / "fitted.json")
    here = YourLog.read(str(tmp_path / "fitted.json"))
    given = {"problem": "log", "log_model": "cm", "positions": "3", "rounds": "200", "rankers": "random"}
    assert "problem" in read(given)[1]
    assert "log_model" in read({**given, "log_model": "ubm"}, here)[1]
    assert "positions" in read({**given, "positions": "9"}, here)[1]
    setup, errors = read(given, here)
    assert errors == {}
    problem = _problem(setup)
    model = _model(setup, problem)
    assert isinstance(model, rr.clicks.Cascade)
    assert problem.attraction.tolist() == model.attraction.tolist()
    fitted = rr.clicks.load(tmp_path / "fitted.json").model("cm")
    assert sorted(model.attraction) == sorted(fitted.attraction)
    said = []
    play(setup, lambda name, document: said.append(name))
    assert said[-1] == "done"
    page = render("playground.html", "/playground", **Playground(here.path).form({})).body.decode()
    assert "your log" in page
    assert "your log" not in render("playground.html", "/playground", **Playground().form({})).body.decode()


def test_a_run_is_a_stream_and_ends_with_who_asked_for_it(server):
    with httpx.Client(base_url=server.url, timeout=90) as http:
        refused = http.post("/dash/playground/run", json={**SMALL, "items": "x", "seed": "y"})
        assert refused.status_code == 400
        assert set(refused.json()["errors"]) == {"items", "seed"}
        assert http.post("/dash/playground/run", content="[]").status_code == 400
        with http.stream("POST", "/dash/playground/run", json=SMALL) as answer:
            assert [name for name, _ in events(answer.iter_lines())][-1] == "done"
        long = {**SMALL, "rounds": "20000000", "rankers": "recurrank", "items": "500", "positions": "100"}
        mine = server.pages._playground._runner
        with http.stream("POST", "/dash/playground/run", json=long) as answer:
            first = events(answer.iter_lines())
            next(first)
            running = next(process for process in mine._processes if process is not mine._spare)
            with http.stream("POST", "/dash/playground/run", json=long) as other:
                second = events(other.iter_lines())
                next(second)
                busy = http.post("/dash/playground/run", json=SMALL)
                assert busy.status_code == 503
                assert "simulations run already" in busy.json()["detail"]
        del first, second
        until(lambda: mine._slots._free == runner.RUNS)
        until(lambda: running.returncode is not None)


def test_a_worker_that_dies_is_told():
    async def killed() -> list[tuple[str, bytes]]:
        mine, said = runner.Runner(), []
        setup, _ = read({**SMALL, "rounds": "20000000", "rankers": "recurrank"})
        async for name, document in mine.run(setup):
            if not said:
                os.kill(next(iter(mine._processes)).pid, signal.SIGKILL)
            said.append((name, document))
        mine.stop()
        await asyncio.wait([mine._starting])  # the next one, which was to be ready: it is ended too
        await asyncio.gather(*(process.wait() for process in mine._processes))
        return said

    last = asyncio.run(killed())[-1]
    assert last[0] == "problem"
    assert b"ended before it was done" in last[1]


def test_a_worker_ends_when_its_server_is_gone():
    async def left() -> int:
        mine = runner.Runner()
        process = await mine._start()
        process.stdin.close()  # as when the server is killed
        began = time.monotonic()
        code = await asyncio.wait_for(process.wait(), 60)
        assert time.monotonic() - began < 60
        return code

    assert asyncio.run(left()) == 0


def test_limits_hold_for_requests_that_come_at_once(tmp_path, monkeypatch):
    """Of twelve simulations two run, of twelve live pages five; who leaves makes room."""
    monkeypatch.setattr(runner, "COMMAND", (sys.executable, "-S", "-c", "import time; time.sleep(60)"))
    monkeypatch.setattr(live, "STREAMS", 5)
    running = Server(f"sqlite:///{tmp_path}/x.db")

    async def at_once(http, method: str, path: str, **more) -> list:
        asked = [http.send(http.build_request(method, path, **more), stream=True) for _ in range(12)]
        return await asyncio.gather(*asked)

    async def all_of_it() -> None:
        async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
            assert (await http.put("/v1/rankers/films", json=ranker())).status_code == 200
            for most, (method, path, more) in {
                2: ("POST", "/dash/playground/run", {"json": DEFAULTS}),
                5: ("GET", "/dash/rankers/films/live", {}),
            }.items():
                for _ in range(2):
                    answers = await at_once(http, method, path, **more)
                    codes = sorted(answer.status_code for answer in answers)
                    assert codes == [200] * most + [503] * (12 - most)
                    for answer in answers:
                        await answer.aclose()
                    await asyncio.sleep(0.5)  # until the server has noticed

    try:
        asyncio.run(all_of_it())
    finally:
        running.stop()

"""What the pages are made of, over real HTTP: lists, live events, files, and who may have them."""

from __future__ import annotations

import io
import json
import signal
import time

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.dashboard.running import STRANGE, Server, events, ranker, use
from tests.serving.running import serving

import recurrank as rr
from recurrank.catalogue import Catalogue
from recurrank.serving import auth
from recurrank.serving.demo import Truth


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('store')}/x.db", truths={"films": Truth([0.5, 0.3, 0.2])})
    yield running
    running.stop()


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client
        for line in client.get("/v1/rankers").json():
            client.delete(f"/v1/rankers/{line['name']}")


def whole(http, name: str, learned: int) -> dict:
    """A ranker's document once it has learned so much; how long it took is in ``seconds``."""
    began = time.monotonic()
    with http.stream("GET", f"/dash/rankers/{name}/live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for kind, document in events(answer.iter_lines()):
            assert kind == "ranker"
            if document["learned"] >= learned:
                return {**document, "seconds": time.monotonic() - began}
            assert time.monotonic() - began < 20
    raise AssertionError("the stream ended")


def test_the_list_is_searched_sorted_and_paged(http):
    for n in range(60):
        assert http.put(f"/v1/rankers/r{n:02}", json=ranker(items=4 + n % 3)).status_code == 200
    use(http, "r07", 3)
    whole(http, "r07", 3)
    time.sleep(1.1)  # a page of the list is good for a second
    first, second = (http.get("/dash/rankers", params={"page": page}).json() for page in (1, 2))
    assert [first["total"], first["pages"], len(first["rows"]), len(second["rows"])] == [60, 2, 50, 10]
    assert [row["name"] for row in first["rows"] + second["rows"]] == [f"r{n:02}" for n in range(60)]
    assert http.get("/dash/rankers", params={"page": 99}).json()["page"] == 2
    found = http.get("/dash/rankers", params={"search": "R1"}).json()
    assert [row["name"] for row in found["rows"]] == [f"r1{n}" for n in range(10)]
    busiest = http.get("/dash/rankers", params={"sort": "-learned"}).json()["rows"][0]
    assert (busiest["name"], busiest["learned"], busiest["start"], busiest["now"]) == ("r07", 3, 1.0, 1.0)
    assert 0 <= busiest["exploration"] <= 1 / 3
    assert http.get("/dash/rankers", params={"search": "nothing"}).json()["rows"] == []
    for wrong in ({"sort": "colour"}, {"page": 0}, {"page": "x"}, {"search": "x" * 300}):
        assert http.get("/dash/rankers", params=wrong).status_code == 400, wrong


def test_one_ranker_has_all_that_its_page_shows(http):
    http.put("/v1/rankers/films", json={**ranker(), "algorithm": "recurrank"})
    slates = use(http, "films", 40)
    http.post("/v1/feedback", json=[{"slate": slates[0], "clicks": []}, {"slate": "x", "clicks": []}])
    now = whole(http, "films", 40)
    assert (now["served"], now["learned"], now["dropped"], now["items"], now["positions"]) == (40, 40, 0, 30, 3)
    assert now["rate"] == {"start": 1.0, "now": 1.0, "margin": 0.0, "span": 1000}
    assert now["by_position"] == [1.0, 0.0, 0.0]
    assert now["truth"] == {"total": pytest.approx(1.0), "by_position": [0.5, 0.3, 0.2], "features": [], "visitor": []}
    assert (now["curve"]["width"], sum(now["curve"]["clicks"]), len(now["curve"]["clicks"])) == (1, 40, 40)
    assert [row["position"] for row in now["ranking"]] == [1, 2, 3]
    assert now["flow"]["boxes"][0]["first"] == 1
    assert now["flow"]["boxes"][0]["last"] == 3
    kinds = [event["kind"] for event in now["events"]]
    assert len(kinds) == 20
    assert set(kinds) == {"learned"}
    assert now["events"][0]["clicks"] == [1]
    assert len(now["events"][0]["items"]) == 3
    assert http.get("/dash/server").json()["unknown"] == 1


def test_positions_are_certain_when_nothing_can_take_them(http):
    """Two items for two positions; then one block per item."""
    features = [[1.0, 0.0], [0.0, 1.0]]
    body = {"positions": 2, "rounds": 100, "items": [{"id": str(n), "features": f} for n, f in enumerate(features)]}
    http.put("/v1/rankers/films", json={**body, "algorithm": "recurrank", "options": {"delta": 1.0}})
    assert {row["certain"] for row in whole(http, "films", 0)["ranking"]} == {"shown"}
    for _ in range(4):
        slates = [http.post("/v1/rankers/films/rank").json() for _ in range(50)]
        clicks = [{"slate": s["slate"], "clicks": [s["items"].index("1")]} for s in slates]
        http.post("/v1/feedback", json=clicks)
    now = whole(http, "films", 200)
    assert [(row["id"], row["certain"]) for row in now["ranking"]] == [("1", "place"), ("0", "place")]
    assert any(box["closed"] is not None for box in now["flow"]["boxes"])


@pytest.mark.parametrize("algorithm", ["recurrank", "balanced", "random"])
def test_algorithms_with_and_without_blocks_can_be_looked_at(http, algorithm):
    http.put("/v1/rankers/films", json=ranker(algorithm=algorithm))
    use(http, "films", 3)
    now = whole(http, "films", 3)
    assert len({row["id"] for row in now["ranking"]}) == 3
    blocks = algorithm in ("recurrank", "balanced")
    assert bool(now["flow"]["boxes"]) == blocks
    assert now["flow"]["history"] == (algorithm == "recurrank")
    assert (now["exploration"] is not None) == blocks
    assert blocks == (now["ranking"][0]["certain"] is not None)


def test_a_change_arrives_and_the_end_is_told(http):
    http.put("/v1/rankers/films", json=ranker())
    with http.stream("GET", "/dash/rankers/films/live") as answer:
        happening = events(answer.iter_lines())
        assert next(happening)[1]["learned"] == 0
        with httpx.Client(base_url=http.base_url, timeout=120) as other:
            use(other, "films", 1)
            assert next(document for _, document in happening if document["learned"] == 1)["rate"]["now"] == 1.0
            other.delete("/v1/rankers/films")
        assert [kind for kind, _ in happening][-1] == "gone"
    assert http.get("/dash/rankers/films/live").status_code == 404


def test_items_are_searched_sorted_and_paged(http):
    http.put("/v1/rankers/films", json=ranker(ids=[*STRANGE, *(f"Item {n:03}" for n in range(100))]))
    use(http, "films", 20)
    whole(http, "films", 20)

    def ask(**query) -> dict:
        answer = http.get("/dash/rankers/films/items", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert (ask()["total"], ask()["pages"], len(ask()["rows"]), len(ask(page=5)["rows"])) == (108, 5, 25, 8)
    assert [row["id"] for row in ask(search="iTEM 00", sort="id")["rows"]] == [f"Item 00{n}" for n in range(10)]
    for name in STRANGE:
        wanted = name.replace("\n", " ").strip()[:12]
        if "\n" not in name:
            assert name in [row["id"] for row in ask(search=wanted)["rows"]]
    rates = [row["rate"] or 0 for page in range(1, 6) for row in ask(sort="-rate", page=page)["rows"]]
    assert rates == sorted(rates, reverse=True)
    shown = [row["shown"] for row in ask(sort="shown", page=5)["rows"]]
    assert shown == sorted(shown)
    assert shown[-1] > 0
    ids = [row["id"] for page in range(1, 6) for row in ask(sort="id", page=page)["rows"]]
    assert ids == sorted(ids, key=str.casefold)
    assert ids[::-1] == [row["id"] for page in range(1, 6) for row in ask(sort="-id", page=page)["rows"]]
    assert ask(search="m 001\nitem")["rows"] == []  # not over the border of two ids
    assert http.get("/dash/rankers/films/items", params={"sort": "colour"}).status_code == 400
    assert http.get("/dash/rankers/none/items").status_code == 404


def test_state_and_log_are_files(http, server):
    body = ranker()
    http.put("/v1/rankers/films", json=body)
    http.put("/v1/rankers/other", json=ranker())
    use(http, "other", 5)
    slates = use(http, "films", 10)
    whole(http, "films", 10)
    state = http.get("/dash/rankers/films/state")
    assert 'filename="films.recurrank"' in state.headers["content-disposition"]
    catalogue = Catalogue([item["features"] for item in body["items"]], [item["id"] for item in body["items"]])
    assert rr.load(state.content, catalogue).save() == server.service.hosted("films").fold.ranker.save()
    lines = [json.loads(line) for line in http.get("/dash/rankers/films/log").text.splitlines()]
    assert [line["kind"] for line in lines] == ["created", *["served"] * 10, *["learned"] * 10]
    assert all(len(line["items"]) == 3 for line in lines[1:])
    assert lines[-1]["clicks"] == [True, False, False]
    assert len(slates) == 10


def test_a_file_is_looked_at_before(http):
    csv = b"id,note,x,y\n<b>,hm,1,2\nb,hm,2,3\n"
    found = http.put("/dash/preview", content=csv, headers={"content-type": "text/csv"}).json()
    assert (found["items"], found["dim"], found["named"], found["ignored"]) == (2, 2, "id", ["note"])
    assert found["rows"][0] == ["<b>", "hm", "1", "2"]
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b"], "v": [[1.0, 2.0, 3.0, 4.0, 5.0]] * 2, "w": ["x", "y"]}), sink)
    parquet = {"content-type": "application/vnd.apache.parquet"}
    found = http.put("/dash/preview", content=sink.getvalue(), headers=parquet).json()
    assert (found["items"], found["dim"], found["ignored"]) == (2, 5, ["w"])
    assert found["rows"][0] == ["a", "1, 2, 3, 4, …", "x"]
    npy = io.BytesIO()
    np.save(npy, np.eye(3))
    found = http.put("/dash/preview", content=npy.getvalue(), headers={"content-type": "application/x-npy"}).json()
    assert (found["items"], found["dim"], found["named"]) == (3, 3, None)
    wrong = {
        "text/csv": b"id,x\na,1\na,2\n",
        "application/x-npy": b"junk",
        "application/vnd.apache.parquet": b"",
        "text/plain": b"x",
    }
    for kind, body in wrong.items():
        answer = http.put("/dash/preview", content=body, headers={"content-type": kind})
        assert answer.status_code in (400, 415), kind
        assert answer.json()["detail"]
    assert http.get("/v1/rankers").json() == []


def test_pages_are_strict_about_what_they_load(http):
    http.put("/v1/rankers/films", json=ranker())
    for path in ("/", "/new", "/playground", "/rankers/films"):
        page = http.get(path)
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert " style=" not in page.text
        assert "<style" not in page.text
        assert "http:" not in page.text
        assert "https:" not in page.text
        for address in [part.split('"')[0] for part in page.text.split('="/static/')[1:]]:
            file = http.get(f"/static/{address}")
            assert file.status_code == 200, address
            assert "immutable" in file.headers["cache-control"]
    missing = http.get("/rankers/none")
    assert missing.status_code == 404
    assert "No ranker is called" in missing.text
    assert http.get("/static/x/../secret").status_code == 404
    odd = http.get("/rankers/<script>")  # never the name of a ranker: no page is made of it
    assert (odd.status_code, odd.headers["content-type"]) == (404, "application/problem+json")


def test_plotly_comes_from_its_package_and_small_over_a_network(http):
    from recurrank.dashboard import assets

    address = assets.addresses()["plotly"]
    plain = http.get(address)
    assert plain.content == assets.packaged("plotly.min.js").content
    assert "content-encoding" not in plain.headers  # this machine's own network is faster than unpacking
    assert len(assets._small("plotly.min.js")) < len(plain.content) / 2


def test_keys_guard_the_data_and_not_the_frames(tmp_path):
    keys = auth.KeyFile(tmp_path / "x.keys")
    secrets = {role: auth.create(keys, role, [role]) for role in ("rank", "admin")}
    server = Server(f"sqlite:///{tmp_path}/x.db", keys)
    try:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            admin = {"authorization": f"Bearer {secrets['admin']}"}
            assert http.put("/v1/rankers/films", json=ranker(), headers=admin).status_code == 200
            for path in ("/", "/new", "/playground", "/rankers/films", "/rankers/none"):
                assert http.get(path).status_code == 200  # a frame does not tell which rankers there are
            data = [
                "/dash/rankers",
                "/dash/server",
                *(f"/dash/rankers/films/{what}" for what in ("items", "state", "log", "live")),
            ]
            for path in data:
                assert http.get(path).status_code == 401, path
                assert http.get(path, headers={"authorization": f"Bearer {secrets['rank']}"}).status_code == 403, path
                with http.stream("GET", path, headers=admin) as answer:
                    assert answer.status_code == 200, path
            for path in ("/dash/playground/run", "/dash/playground/warm"):
                assert http.post(path, json={}).status_code == 401
            assert http.put("/dash/preview", content=b"id,x\na,1\n").status_code == 401
    finally:
        server.stop()


def test_a_page_of_another_origin_can_do_nothing(http):
    http.put("/v1/rankers/films", json=ranker())
    foreign = {"origin": "https://evil.example", "content-type": "text/plain"}
    assert http.post("/dash/playground/run", headers=foreign, content="{}").status_code == 403
    assert http.put("/dash/preview", headers=foreign, content="x").status_code == 403
    assert http.put("/v1/rankers/mine", headers=foreign, content="x").status_code == 403
    assert http.delete("/v1/rankers/films", headers=foreign).status_code == 403
    answer = http.get("/dash/rankers", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers  # so that its page cannot read it
    assert [line["name"] for line in http.get("/v1/rankers").json()] == ["films"]


def test_a_server_with_open_pages_stops_at_once(tmp_path):
    with serving("--store", f"sqlite:///{tmp_path}/x.db") as (process, url), httpx.Client(base_url=url, timeout=120) as http:
        http.put("/v1/rankers/films", json=ranker())
        with http.stream("GET", "/dash/rankers/films/live") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: ranker"
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            for _ in lines:  # until the stream ends, long before requests would be cut off
                pass
            assert time.monotonic() - began < 4
            assert process.wait(timeout=20) == 0

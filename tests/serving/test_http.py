"""The service over real HTTP: what it answers, what it refuses, and that refusing changes nothing."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.serving.running import InThread, serving

import recurrank as rr
from recurrank.serving import auth
from recurrank.serving.http.app import make_app
from recurrank.serving.http.gate import Limits
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.upload import read_ranker
from recurrank.serving.service import Service, Settings
from recurrank.serving.store import open_store

RANKER = {"positions": 2, "rounds": 1000, "items": [{"id": f"i{n}", "features": [1.0, n / 10]} for n in range(8)]}
SMALL = Limits(body=40_000, seconds=1.0, rate=50.0, origins=("https://shop.example",))


class Server:
    """A real server in a thread, on a port of its own."""

    def __init__(self, address: str, keys: auth.Keys | None = None, limits: Limits = SMALL) -> None:
        self.service = Service(open_store(address), seed=0, settings=Settings(refresh=0.05, poll=0.01))
        self.app = make_app(self.service, KeyRing(keys) if keys else None, limits)
        self.running = InThread(self.app)
        self.url, self.port = self.running.url, self.running.port

    def stop(self) -> None:
        self.running.stop()
        self.app.stop()
        self.service.close()


@pytest.fixture
def server(tmp_path):
    running = Server(f"sqlite:///{tmp_path}/x.db")
    yield running
    running.stop()


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


def learned(http, name: str, number: int) -> dict:
    deadline = time.monotonic() + 10
    while (status := http.get(f"/v1/rankers/{name}").json())["learned"] < number:
        assert time.monotonic() < deadline, status
        time.sleep(0.01)
    return status


def test_a_whole_life(http):
    assert http.put("/v1/rankers/films", json=RANKER).json() == {"name": "films", "created": True}
    assert http.put("/v1/rankers/films", json=RANKER).json() == {"name": "films", "created": False}
    assert http.put("/v1/rankers/films", json={**RANKER, "seed": 5}).status_code == 409
    ranked = http.post("/v1/rankers/films/rank", json={"slate": "mine"}).json()
    assert ranked["slate"] == "mine"
    assert len(set(ranked["items"])) == 2
    assert http.post("/v1/rankers/films/rank", json={"slate": "mine"}).json()["items"] == ranked["items"]
    other = http.post("/v1/rankers/films/rank").json()["slate"]
    reports = [{"slate": "mine", "clicks": [0], "final": False}, {"slate": other, "clicks": []}, {"slate": "x", "clicks": []}]
    reports += [{"slate": "mine", "clicks": [1]}, {"slate": "mine", "clicks": [1]}]
    answers = http.post("/v1/feedback", json=reports).json()
    assert [answer["status"] for answer in answers] == ["open", "learned", "unknown", "learned", "duplicate"]
    status = learned(http, "films", 2)
    assert (status["served"], status["clicks"], status["open"]) == (2, 2, 0)
    assert [line["name"] for line in http.get("/v1/rankers").json()] == ["films"]
    metrics = http.get("/metrics").text
    assert 'recurrank_learned_total{ranker="films"} 2.0' in metrics
    assert 'recurrank_reports_total{status="duplicate"} 1.0' in metrics
    assert http.get("/healthz").json()["status"] == http.get("/readyz").json()["status"] == "ok"
    assert http.delete("/v1/rankers/films").status_code == 204
    assert http.delete("/v1/rankers/films").status_code == 404
    assert http.get("/v1/rankers").json() == []


@pytest.mark.parametrize(
    ("change", "says"),
    [(lambda body: body[:-8], "64 bytes of numbers, its header says 72; the file is truncated"),
     (lambda body: body + bytes(8), "80 bytes of numbers, its header says 72; there is more than its header announces")],
)  # fmt: skip
def test_a_file_that_is_not_as_long_as_its_header_says(http, change, says):
    npy = io.BytesIO()
    np.save(npy, np.ones((3, 3)))
    kind = {"content-type": "application/x-npy"}
    answer = http.put("/v1/rankers/bad?positions=2&rounds=9", content=change(npy.getvalue()), headers=kind)
    assert (answer.status_code, answer.json()["detail"]) == (400, f"body: {says}")


def test_a_parameter_of_the_query_that_is_given_twice_is_refused(http):
    npy = io.BytesIO()
    np.save(npy, np.ones((3, 3)))
    for query, name in (("positions=2&rounds=9&positions=3", "positions"), ("rounds=9&rounds=9&positions=2", "rounds")):
        answer = http.put(f"/v1/rankers/bad?{query}", content=npy.getvalue(), headers={"content-type": "application/x-npy"})
        assert (answer.status_code, answer.json()["detail"]) == (400, f"query: '{name}' is given twice; give it once")
    assert http.get("/v1/rankers").json() == []


def test_a_catalogue_may_be_a_file(http):
    features = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    npy = io.BytesIO()
    np.save(npy, features)
    files = {"application/x-npy": npy.getvalue()}
    for name, table in {
        "list": pa.table({"id": [f"f{n}" for n in range(20)], "vector": features.tolist()}),
        "columns": pa.table({"id": range(20), **{f"x{i}": features[:, i] for i in range(3)}}),
    }.items():
        sink = io.BytesIO()
        pq.write_table(table, sink)
        files[f"application/vnd.apache.parquet; {name}"] = sink.getvalue()
    lines = [",".join([f"f{n}", *map(str, row)]) for n, row in enumerate(features.tolist())]
    files["text/csv; list"] = "\n".join(["title,x,y,z", *lines]).encode()
    query = {"algorithm": "recurrank", "positions": 4, "rounds": 500, "options": '{"design": "spanner"}'}
    for number, (kind, body) in enumerate(files.items()):
        for created in (True, False):
            answer = http.put(f"/v1/rankers/r{number}", params=query, content=body, headers={"content-type": kind})
            assert answer.json() == {"name": f"r{number}", "created": created}
        status = http.get(f"/v1/rankers/r{number}").json()
        assert (status["items"], status["dim"], status["positions"]) == (20, 3, 4)
        items = http.post(f"/v1/rankers/r{number}/rank").json()["items"]
        assert set(items) <= {f"{'f' if 'list' in kind else ''}{n}" for n in range(20)}
    bad = [(b"junk", "application/x-npy", 400), (b"junk", "application/vnd.apache.parquet", 400), (b"x", "text/plain", 415)]
    bad += [(npy.getvalue()[:-8], "application/x-npy", 400), (b"id,x\na,one\n", "text/csv", 400)]
    for body, kind, code in bad:
        answer = http.put("/v1/rankers/bad", params=query, content=body, headers={"content-type": kind})
        assert answer.status_code == code, answer.text
    for wrong in ({}, {"positions": "many"}, {"positions": 4, "colour": "red"}, {"positions": 4, "options": "{"}):
        answer = http.put(
            "/v1/rankers/bad", params=wrong, content=npy.getvalue(), headers={"content-type": "application/x-npy"}
        )
        assert answer.status_code == 400
    assert len(http.get("/v1/rankers").json()) == 4


def test_parquet_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    with pytest.raises(Refused, match="runs without pyarrow") as refused:
        read_ranker("application/vnd.apache.parquet", b"PAR1", {"positions": "2"})
    assert refused.value.status == 415


def test_a_large_catalogue_within_the_bounds_is_taken(tmp_path):
    """Bodies that the worker decodes give the same catalogue as the library does; one MB more than allowed is refused."""
    features = np.random.default_rng(0).standard_normal((20_000, 5))
    ids = [f"item {n}" for n in range(len(features))]
    lines = [f"{name},{','.join(map(repr, row))}" for name, row in zip(ids, features.tolist(), strict=True)]
    body = "\n".join(["id,a,b,c,d,e", *lines]).encode()
    items = [{"id": name, "features": row} for name, row in zip(ids, features.tolist(), strict=True)]
    asked = {"positions": 2, "rounds": 1000, "algorithm": "random"}
    for limits, code in ((Limits(), 200), (Limits(catalogue=1 << 20), 413)):
        running = Server(f"sqlite:///{tmp_path}/{code}.db", limits=limits)
        try:
            with httpx.Client(base_url=running.url, timeout=120) as http:
                assert (
                    http.put("/v1/rankers/csv", params=asked, content=body, headers={"content-type": "text/csv"}).status_code
                    == code
                )
                assert http.put("/v1/rankers/json", json={**asked, "items": items}).status_code == code
            if code == 200:
                for name in ("csv", "json"):
                    catalogue = running.service.hosted(name).catalogue
                    np.testing.assert_array_equal(catalogue.features, features)
                    assert list(catalogue.ids) == ids
        finally:
            running.stop()


def test_settings_in_the_wrong_place_are_refused(http):
    answer = http.put("/v1/rankers/films", params={"rounds": 7}, json=RANKER)
    assert answer.status_code == 400
    assert "'rounds' has no effect" in answer.json()["detail"]
    assert http.get("/v1/rankers").json() == []


def test_a_page_of_another_origin_changes_nothing(http, server):
    """Browsers send some requests to anywhere without asking first: they are refused by where they come from."""
    http.put("/v1/rankers/films", json=RANKER)
    plain = {"origin": "https://evil.example", "content-type": "text/plain"}
    assert http.post("/v1/rankers/films/rank", headers=plain).status_code == 403
    assert http.post("/v1/feedback", headers=plain, content="[]").status_code == 403
    assert http.request("DELETE", "/v1/rankers/films", headers=plain).status_code == 403
    for origin in ("https://shop.example", server.url):
        assert http.post("/v1/rankers/films/rank", headers={"origin": origin}).status_code == 200
    assert http.get("/v1/rankers/films").status_code == 200


def test_large_bodies_are_refused_and_not_kept(tmp_path):
    """Of any length, told beforehand or not: 413 that the client can read, and the memory stays where it was."""
    with serving("--store", f"sqlite:///{tmp_path}/x.db") as (process, url), httpx.Client(base_url=url, timeout=60) as http:
        http.put("/v1/rankers/films", json=RANKER)

        def peak() -> int:
            status = Path(f"/proc/{process.pid}/status").read_text()
            return int(status.partition("VmHWM:")[2].split()[0]) << 10

        def dripped():
            for _ in range(110):
                yield bytes(1 << 20)

        million = b'{"positions":2,"items":[' + b",".join([b'{"id":"1","features":[1]}'] * 10**6) + b"]}"
        before = peak()
        npy = {"content-type": "application/x-npy"}
        asked = [http.put("/v1/rankers/a", content=million)]
        asked += [http.put("/v1/rankers/a?positions=2", content=body, headers=npy) for body in (bytes(100 << 20), dripped())]
        asked += [http.post("/v1/feedback", content=b'[{"slate":"a","clicks":[]}' + b',{"slate":"a","clicks":[]}' * 200_000)]
        asked += [http.post("/v1/rankers/films/rank", content=b'{"slate":"' + b"a" * (100 << 20) + b'"}')]
        assert [answer.status_code for answer in asked] == [413] * 5
        assert all(answer.json()["detail"].startswith("body: ") for answer in asked)
        assert peak() - before < 200 << 20
        assert http.put("/v1/rankers/films", content=b"[" * 10_000_000).status_code == 400
        assert http.post("/v1/rankers/films/rank", content=b'{"slate":' + b"[" * 1_000_000).status_code == 400
        deep = b'{"positions":2,"items":[{"id":"a","features":[1]}],"options":{"delta":' + b"[" * 5_000_000
        assert http.put("/v1/rankers/more", content=deep).status_code == 400
        assert peak() - before < 300 << 20
        assert [line["name"] for line in http.get("/v1/rankers").json()] == ["films"]


def changed(**changes) -> dict:
    return {**RANKER, **changes}


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (changed(positions=9), "positions"),
        (changed(positions=0), "positions"),
        (changed(algorithm="moon"), "moon"),
        (changed(options={"delta": 7}), "delta"),
        (changed(options={"moon": 7}), "moon"),
        (changed(options={"seed": 1}), "seed"),
        (changed(options={"positions": 1}), "positions"),
        (changed(options={"features": [[1.0]]}), "features"),
        (changed(options={"rounds": 1}), "rounds"),
        (changed(options={"name": "x"}), "name"),
        (changed(algorithm="oracle"), "oracle"),
        (changed(algorithm="batchrank"), "needs the answer to each slate"),
        (changed(algorithm="oracle", options={"attraction": [0.1] * 8}), "oracle"),
        (changed(unreported="maybe"), "unreported"),
        (changed(window_seconds=0), "window_seconds"),
        (changed(items=[]), "items"),
        (changed(items=[{"id": "a", "features": [0.0]}, {"id": "b", "features": [0.0]}]), "feature"),
        (changed(items=[{"id": "a", "features": [1.0]}, {"id": "a", "features": [2.0]}]), "ids"),
        (changed(items=[{"id": "a", "features": [1.0]}, {"id": "b", "features": [2.0, 1.0]}]), "items[1]"),
        (changed(colour="red"), "colour"),
        ({"positions": 2}, "items"),
        ([], "object"),
    ],
)
def test_a_bad_ranker_is_refused_and_nothing_changes(http, document, word):
    answer = http.put("/v1/rankers/films", json=document)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert word in answer.json()["detail"]
    assert http.get("/v1/rankers").json() == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"positions": 2, "items": [{"id": "a", "features": [NaN]}]}', 400),
        (b'{"positions": 1, "items": [{"id": "a", "features": [1e999]}]}', 400),
        (b"[" * 15_000, 400),
        (b"x" * 50_000, 413),
        (b'{"positions": 1e400}', 400),
        (b"\xff\xfe", 400),
    ],
)
def test_bad_bytes(http, body, status):
    answer = http.put("/v1/rankers/films", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert http.get("/v1/rankers").json() == []


def test_bad_reports(http):
    http.put("/v1/rankers/films", json=RANKER)
    slate = http.post("/v1/rankers/films/rank").json()["slate"]
    for wrong in (
        {"slate": slate},
        {"slate": slate, "clicks": ["a"]},
        {"slate": "a b", "clicks": []},
        {"slate": "", "clicks": []},
        {"slate": f"{slate}\n", "clicks": []},
    ):
        assert http.post("/v1/feedback", json=[wrong]).status_code == 400
    assert http.post("/v1/rankers/films/rank", json={"slate": "abc\n"}).status_code == 400
    many = [{"slate": f"{n}", "clicks": []} for n in range(1001)]
    refused = http.post("/v1/feedback", json=many)
    assert refused.status_code == 413
    assert "1,001 reports" in refused.json()["detail"]
    answer = http.post("/v1/feedback", json=[{"slate": slate, "clicks": [2]}, {"slate": slate, "clicks": [-1]}])
    assert [one["status"] for one in answer.json()] == ["invalid", "invalid"]
    assert http.post("/v1/feedback", json=[]).json() == []


def test_routes_and_methods_that_are_not_there(http):
    assert http.get("/nowhere").status_code == 404
    assert http.post("/v1/rankers").status_code == 405
    assert http.get("/v1/feedback").status_code == 405
    assert http.get("/v1/rankers/films").status_code == 404
    assert http.post("/v1/rankers/films/rank").status_code == 404
    assert http.put("/v1/rankers/a%20b", json=RANKER).status_code in (400, 404)
    for answer in (http.get("/nowhere"), http.post("/v1/rankers")):
        assert answer.json()["title"]


def test_a_dripping_body_is_cut_off(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        head = (
            "PUT /v1/rankers/x HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
        )
        line.sendall(head.encode())
        began = time.monotonic()
        assert b" 408 " in line.recv(1000)
        assert 0.5 < time.monotonic() - began < 5


def test_hosts_and_origins(server):
    with httpx.Client(base_url=server.url) as http:
        assert http.get("/healthz", headers={"host": "evil.example"}).status_code == 421
        assert http.get("/healthz", headers={"host": f"localhost:{server.port}"}).status_code == 200
        mine, other = {"origin": "https://shop.example"}, {"origin": "https://evil.example"}
        assert http.get("/healthz", headers=mine).headers["access-control-allow-origin"] == "https://shop.example"
        # a page may read when to try again
        assert http.get("/healthz", headers=mine).headers["access-control-expose-headers"] == "retry-after"
        assert not any(name.startswith("access-control") for name in http.get("/healthz", headers=other).headers)
        assert http.options("/v1/feedback", headers=mine).status_code == 204
        assert http.options("/v1/feedback", headers=other).status_code == 403


def test_keys_and_roles(tmp_path):
    keys = auth.KeyFile(tmp_path / "keys")
    secrets = {role: auth.create(keys, role, [role]) for role in auth.ROLES}
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0
    assert not any(secret in (tmp_path / "keys").read_text() for secret in secrets.values())
    running = Server(f"sqlite:///{tmp_path}/x.db", keys)
    try:
        with httpx.Client(base_url=running.url) as http:

            def called(role: str, method: str, path: str, **more) -> int:
                headers = {"authorization": f"Bearer {secrets.get(role, role)}"}
                return http.request(method, path, headers=headers, **more).status_code

            assert http.get("/healthz").status_code == 200
            assert http.get("/v1/rankers").status_code == 401
            assert called("rk_wrong", "GET", "/v1/rankers") == 401
            assert called("admin", "PUT", "/v1/rankers/films", json=RANKER) == 200
            assert called("rank", "PUT", "/v1/rankers/more", json=RANKER) == 403
            assert called("rank", "POST", "/v1/rankers/films/rank") == 200
            assert called("feedback", "POST", "/v1/rankers/films/rank") == 403
            assert called("feedback", "POST", "/v1/feedback", json=[]) == 200
            assert called("rank", "POST", "/v1/feedback", json=[]) == 403
            assert called("rank", "DELETE", "/v1/rankers/films") == 403
            running.app._buckets["feedback"] = 0.0, time.monotonic() + 3600  # all is spent, for an hour
            assert called("feedback", "POST", "/v1/feedback", json=[]) == 429
            assert called("rank", "POST", "/v1/rankers/films/rank") == 200  # the others have their own
            auth.revoke(keys, "rank")
            deadline = time.monotonic() + 10
            while called("rank", "POST", "/v1/rankers/films/rank") != 401:
                assert time.monotonic() < deadline
                time.sleep(0.2)
    finally:
        running.stop()


def test_a_key_has_its_rate_and_one_second_of_it_at_once(server):
    gate = server.app

    def spent(requests: int, now: float) -> int:
        """How many of so many requests at the same time are let through."""
        through = 0
        for _ in range(requests):
            with contextlib.suppress(Refused):
                gate._spend("key", 50.0, now)
                through += 1
        return through

    assert spent(80, now=1000.0) == 50
    assert spent(80, now=1000.1) == 5
    assert spent(80, now=1060.0) == 50  # what was not used is not kept
    with pytest.raises(Refused, match="rate: more than 50 requests per second with this key"):
        gate._spend("key", 50.0, 1060.0)


def test_keys_made_at_the_same_time_are_all_kept(address):
    start = threading.Barrier(8)

    def make(name: str) -> None:
        keys = auth.open_keys(address)
        start.wait(timeout=60)
        auth.create(keys, name, ["rank"])
        keys.close()

    threads = [threading.Thread(target=make, args=(f"key-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    keys = auth.open_keys(address)
    assert {key.name for key in keys.all()} == {f"key-{n}" for n in range(8)}
    keys.close()


@pytest.mark.parametrize(
    ("name", "roles"), [("", ["rank"]), ("a b", ["rank"]), ("a", []), ("a", ["king"]), ("there", ["rank"])]
)
def test_bad_keys(tmp_path, name, roles):
    keys = auth.KeyFile(tmp_path / "keys")
    auth.create(keys, "there", ["admin"])
    with pytest.raises(ValueError, match=r"^(name|roles): "):
        auth.create(keys, name, roles)
    with pytest.raises(ValueError, match=r"^name: "):
        auth.revoke(keys, "nobody")
    assert [key.name for key in keys.all()] == ["there"]
    (tmp_path / "keys").write_text("{")
    with pytest.raises(ValueError, match="not a file of keys"):
        keys.all()


def test_the_document_for_programs(http):
    document = http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {
        "/v1/rankers", "/v1/rankers/{name}", "/v1/rankers/{name}/rank", "/v1/rankers/{name}/items", "/v1/rankers/{name}/rules",
        "/v1/rankers/{name}/experiment", "/v1/rankers/{name}/experiment/release", "/v1/feedback", "/healthz",
        "/readyz", "/metrics",
    }  # fmt: skip
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert re.fullmatch(r"[^`.]+", operation["summary"]), (method, path)  # plain text, not Markdown
            assert operation["description"], (method, path)
            assert operation["tags"][0] in [tag["name"] for tag in document["tags"]], (method, path)
    schemas = document["components"]["schemas"]
    assert schemas["NewRanker"]["properties"]["algorithm"]["enum"] == rr.rankers.names(served=True)
    assert schemas["Options-of-toprank"]["properties"]["delta"]["maximum"] == 1


def shape(value):
    """A JSON value with types in place of numbers and of what was drawn at random."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return sorted({str(shape(inner)) for inner in value})
    return value if isinstance(value, str) and not value.startswith("film-") else type(value).__name__


def test_the_examples_of_the_api_work_in_their_order_and_are_answered_as_it_says(http):
    paths = http.get("/openapi.json").json()["paths"]
    order = ("create_ranker", "rank", "feedback", "list_rankers", "show_ranker", "change_items", "list_items", "set_rules",
             "show_rules", "healthz", "readyz")  # fmt: skip
    for operation in order:
        ((path, method, said),) = [
            (path, method, said) for path, methods in paths.items() for method, said in methods.items()
            if said["operationId"] == operation
        ]  # fmt: skip
        body = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
        answer = http.request(method, path.replace("{name}", "films"), json=body)
        assert answer.status_code == 200, operation
        assert shape(answer.json()) == shape(said["responses"]["200"]["content"]["application/json"]["example"]), operation
        if operation == "feedback":
            learned(http, "films", 1)


def test_the_example_of_a_file_works(http):
    put = http.get("/openapi.json").json()["paths"]["/v1/rankers/{name}"]["put"]
    text = put["requestBody"]["content"]["text/csv"]["example"]
    assert not any("default" in parameter["schema"] for parameter in put["parameters"])  # a page would send it with JSON, too
    answer = http.put("/v1/rankers/more?positions=2", content=text, headers={"content-type": "text/csv"})
    assert answer.json() == {"name": "more", "created": True}


def test_learning_through_http_finds_the_good_items(http):
    rng = np.random.default_rng(0)
    http.put("/v1/rankers/films", json=changed(algorithm="recurrank", options={"delta": 0.5}, rounds=400))
    total = 400
    for _ in range(total):
        ranked = http.post("/v1/rankers/films/rank").json()
        clicks = [k for k, item in enumerate(ranked["items"]) if rng.random() < 0.1 + int(item[1:]) / 10]
        http.post("/v1/feedback", json=[{"slate": ranked["slate"], "clicks": clicks}])
    status = learned(http, "films", total)
    assert status["blocks"][0]["phase"] > 1
    assert {item["id"] for item in status["best"]} <= {"i4", "i5", "i6", "i7"}

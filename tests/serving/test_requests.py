"""Requests over real HTTP: candidates, features, rules; items that come and go; and that the log alone gives the same bytes."""

from __future__ import annotations

import asyncio
import io
import json
import threading

import httpx
import msgspec
import numpy as np
import pytest
from tests.serving.test_http import Server, learned

import recurrank as rr
from recurrank.catalogue import Catalogue
from recurrank.rankers import request_ranker
from recurrank.rankers.request import RequestSlate
from recurrank.rankers.stock import Stock
from recurrank.serving.asked import Asked
from recurrank.serving.audit import replay
from recurrank.serving.changes import KEEP, Wanted
from recurrank.serving.events import Kind, unpack_clicks, unpack_request
from recurrank.serving.fold import new_fold
from recurrank.serving.http.gate import Limits
from recurrank.serving.service import Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report
from recurrank.serving.verify import verify

POSITIONS, DIM = 3, 2
ITEMS = [{"id": f"i{n}", "features": [1.0, n / 10]} for n in range(8)]
SHOP = {"algorithm": "anchored", "positions": POSITIONS, "rounds": 1000, "items": ITEMS}
FREE = {"algorithm": "anchored", "positions": POSITIONS, "dim": DIM}
SPEC = RankerSpec(algorithm="anchored", positions=POSITIONS, rounds=1000, window_seconds=1.0)
CATALOGUE = Catalogue([item["features"] for item in ITEMS], [item["id"] for item in ITEMS])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('requests')}/x.db", limits=Limits())
    yield running
    running.stop()


@pytest.fixture
def http(server):
    for name in server.service.names():
        server.service.delete(name)
    with httpx.Client(base_url=server.url, timeout=120) as client:
        assert client.put("/v1/rankers/shop", json=SHOP).json()["created"]
        assert client.put("/v1/rankers/free", json=FREE).json()["created"]
        yield client


def npy(rows, kind=np.float32) -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.asarray(rows, kind))
    return sink.getvalue()


def sound(service: Service, name: str) -> None:
    """The log alone gives the bytes that were learned, and it is what was written."""
    while service.lag():
        service.step()
    hosted = service.hosted(name)
    fold = new_fold(hosted.spec, hosted.catalogue)
    fold.apply(service.store.events(0, 10**6, hosted.stored.number))
    assert fold.save() == hosted.fold.save()
    assert replay(service.store, hosted.stored).faults == []
    assert verify(service.store).faults == []


def test_a_request_by_ids_and_by_features(http, server):
    asked = {"slate": "one", "candidates": ["i7", "i2", "i5", "i1"], "segment": "phone", "exclude": ["i2"], "pin": {"1": "i1"}}
    ranked = http.post("/v1/rankers/shop/rank", json=asked).json()
    assert set(ranked["items"]) == {"i7", "i5", "i1"}
    assert ranked["items"][1] == "i1"
    assert http.post("/v1/rankers/shop/rank", json=asked).json()["items"] == ranked["items"]
    assert http.post("/v1/rankers/shop/rank", json={"slate": "one", "candidates": ["gone"]}).json()["items"] == ranked["items"]
    assert len(http.post("/v1/rankers/shop/rank", json={"positions": 2}).json()["items"]) == 2
    whole = http.post("/v1/rankers/shop/rank").json()
    assert len(set(whole["items"])) == POSITIONS
    rows = [[1.0, 0.5], [0.25, 0.75]]
    given = [{"id": name, "features": row} for name, row in zip("ab", rows, strict=True)]
    kinds = {
        "application/json": json.dumps({"candidates": given}).encode(),
        "application/msgpack": msgspec.msgpack.encode({"candidates": ["a", "b"], "features": np.array(rows, "<f4").tobytes()}),
        "application/x-msgpack": msgspec.msgpack.encode({"candidates": given}),
        "application/x-npy": npy(rows, np.float64),
    }
    for kind, body in kinds.items():
        query = {"ids": "a,b", "segment": "phone"} if kind.endswith("npy") else {}
        answer = http.post("/v1/rankers/free/rank", content=body, headers={"content-type": kind}, params=query)
        assert sorted(answer.json()["items"]) == ["a", "b"], answer.text
        row = server.service.store.rows(server.service.store._reader, {answer.json()["slate"]})[answer.json()["slate"]]
        shown = unpack_request(server.service.store.payload(server.service.store._reader, row.served))
        assert np.frombuffer(shown.rows()).reshape(-1, DIM).tolist() == [rows["ab".index(name)] for name in shown.names]
        report = [{"slate": answer.json()["slate"], "clicks": [2]}]  # two were shown
        assert http.post("/v1/feedback", json=report).json()[0]["status"] == "invalid"
    unnamed = http.post("/v1/rankers/free/rank", content=npy(rows), headers={"content-type": "application/x-npy"}).json()
    assert sorted(unnamed["items"]) == ["0", "1"]
    reports = [{"slate": slate, "clicks": [1]} for slate in ("one", "one", whole["slate"], unnamed["slate"])]
    answers = http.post("/v1/feedback", json=reports).json()
    assert [answer["status"] for answer in answers] == ["learned", "duplicate", "learned", "learned"]
    status = learned(http, "shop", 2)
    assert status["requests"]["examination"][-1]["segment"] == "phone"
    assert len(status["requests"]["coefficients"]) == DIM + 1
    for name in ("shop", "free"):
        sound(server.service, name)


def test_a_visitor_with_a_context(http, server):
    spec = {**FREE, "options": {"context": 2, "interactions": "outer"}}
    assert http.put("/v1/rankers/visits", json=spec).json()["created"]
    given = [{"id": name, "features": [1.0, 0.5]} for name in "ab"]
    for number in range(30):
        ranked = http.post("/v1/rankers/visits/rank", json={"candidates": given, "context": [0.5, number / 30]}).json()
        http.post("/v1/feedback", json=[{"slate": ranked["slate"], "clicks": [number % 2]}])
    learned(http, "visits", 30)
    sound(server.service, "visits")
    missing = http.post("/v1/rankers/visits/rank", json={"candidates": given})
    assert (missing.status_code, missing.json()["detail"][:8]) == (400, "context:")


GIVEN = [{"id": "a", "features": [1.0, 0.5]}, {"id": "b", "features": [1.0, 0.5]}]
BAD = {
    "an unknown id": ("shop", {"candidates": ["i1", "i99"]}, "candidates[1]: 'i99'"),
    "an id twice": ("shop", {"candidates": ["i1", "i1"]}, "candidates[1]: 'i1' is repeated"),
    "no candidates": ("shop", {"candidates": []}, "body: "),
    "no features": ("free", {"candidates": ["a", "b"]}, "features: missing"),
    "nothing": ("free", {}, "features: missing"),
    "few features": ("free", {"candidates": [{"id": "a", "features": [1.0]}]}, "features: shape"),
    "ragged": ("free", {"candidates": [GIVEN[0], {"id": "b", "features": [1.0]}]}, "candidates[1].features: 1 numbers"),
    "half of them": ("free", {"candidates": [GIVEN[0], "b"]}, "candidates: some have features"),
    "text": ("free", {"candidates": [{"id": "a", "features": ["x", 1.0]}]}, "body: "),
    "pinned twice": ("shop", {"pin": {"0": "i1", "1": "i1"}}, "pin: 'i1' is pinned twice"),
    "pinned and excluded": ("shop", {"pin": {"0": "i1"}, "exclude": ["i1"]}, "pin: 'i1' is excluded"),
    "pinned nowhere": ("shop", {"pin": {"7": "i1"}}, "pin: 7"),
    "pinned from elsewhere": ("shop", {"candidates": ["i2"], "pin": {"0": "i1"}}, "pin: 'i1' is not among"),
    "all excluded": ("shop", {"candidates": ["i1"], "exclude": ["i1"]}, "exclude: no candidate is left"),
    "many positions": ("shop", {"positions": 4}, "positions: 4 is more"),
    "no share": ("shop", {"explore": 1.5}, "body: "),
    "a context of nobody": ("shop", {"candidates": ["i1"], "context": [1.0]}, "context: this ranker was made without one"),
    "an empty context": ("shop", {"context": []}, "context: this ranker was made without one"),
    "large features": ("free", {"candidates": [{"id": "a", "features": [1.0, 1e200]}]}, "features[0, 1]: 1e+200 is larger"),
    "an empty segment": ("shop", {"segment": ""}, "body: "),
    "another field": ("shop", {"candidate": ["i1"]}, "body: "),
    "rows of two lengths": (
        "free",
        {"candidates": [{"id": "a", "features": [1.0, 2.0]}, {"id": "b", "features": [1.0]}]},
        "candidates[1].features: 1 numbers, the first candidate has 2",
    ),
    "features twice": ("free", {"candidates": GIVEN, "features": "AAAA"}, "features: given twice"),
    "features of nobody": ("free", {"features": "AAAA"}, "candidates: missing"),
    "odd bytes": ("free", {"candidates": ["a"], "features": "AAAA"}, "features: 3 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_requests_change_nothing(http, server, what):
    name, body, said = BAD[what]
    before = server.service.store.newest()
    answer = http.post(f"/v1/rankers/{name}/rank", json=body)
    assert (answer.status_code, answer.json()["status"]) == (400, 400), answer.text
    assert said in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]
    assert server.service.store.newest() == before


def test_bad_files_and_kinds(http, server):
    before = server.service.store.newest()
    nan, row, kind = npy([[1.0, np.nan]]), npy([[1.0, 2.0]]), {"content-type": "application/x-npy"}
    for content, query, status in (
        (nan, {}, 400), (b"x", {}, 400), (row, {"ids": "a,b"}, 400), (npy([[1.0]]), {}, 400), (row, {"pin": "{"}, 400),
        (row, {"context": "a"}, 400), (row, {"seed": "1"}, 400), (npy(np.ones((10_001, 2))), {}, 413), (row[:-4], {}, 400),
        (row, {"ids": "[" * 5000}, 400),
    ):  # fmt: skip
        answer = http.post("/v1/rankers/free/rank", content=content, params=query, headers=kind)
        assert answer.status_code == status, answer.text
    for media, content, status in (
        ("application/msgpack", b"\xc1", 400), ("application/msgpack", b"\x91" * 10_000, 400), ("application/pdf", b"{}", 415),
        ("application/json", b'{"context": [NaN]}', 400), ("application/json", b'{"context": [1e999]}', 400),
    ):  # fmt: skip
        answer = http.post("/v1/rankers/free/rank", content=content, headers={"content-type": media})
        assert answer.status_code == status, answer.text
    assert http.post("/v1/rankers/free/rank?slate=x", json={}).status_code == 400
    large = {"algorithm": "anchored", "positions": 100, "dim": 500}
    assert "take" in http.put("/v1/rankers/large", json=large).json()["detail"]
    for spec in (
        {"positions": 2},
        {"positions": 2, "dim": 2},
        {**FREE, "explore_uniform": 0.1},
        {**FREE, "options": {"dim": 2}},
    ):
        assert http.put("/v1/rankers/none", json=spec).status_code == 400
    assert server.service.store.newest() == before


def test_a_view_is_renewed_when_something_was_decided(tmp_path):
    """Slates and answers without a decision change nothing that is shown: the view then waits for a second."""

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock, items = Clock(), Catalogue(np.random.default_rng(0).random((20, 3)), [f"i{n}" for n in range(20)])
    service = Service(open_store(f"sqlite:///{tmp_path}/x.db"), clock, seed=0, start=False, settings=Settings(renew=1))
    service.create("shop", RankerSpec(algorithm="anchored", positions=3), items)
    hosted = service.hosted("shop")

    def turn(seconds: float, answers: int) -> bool:
        """Whether the view is another one afterwards."""
        slates = [service.rank("shop", asked=Asked([f"i{n}" for n in range(10)])).slate for _ in range(max(1, answers))]
        service.feedback([Report(slate, (0,), True) for slate in slates[:answers]])
        before, clock.now = hosted._view, clock.now + seconds
        service.step()
        return hosted._view is not before

    turn(2.0, 1)
    assert not turn(0.5, 0)
    assert turn(0.6, 0)
    assert not turn(0.5, 1)
    assert turn(0.3, 20)  # estimates come after 8 answers and more
    assert hosted._view.decisions == hosted.fold.ranker.decisions > 0
    service.close()


def test_a_large_change_is_decoded_by_another_process(http, server):
    """What is above some hundred kilobytes, so that other requests are answered meanwhile; the result is the same."""
    new = [{"id": f"n{n}", "features": [1.0, n / 20_000]} for n in range(20_000)]
    many = http.patch("/v1/rankers/shop/items", json={"add": new, "remove": ["i0"]}, timeout=60)
    assert (many.json()["added"], many.json()["removed"]) == (20_000, 1), many.text
    stock = server.service.stocked("shop").stock
    assert "i0" not in stock.index
    assert stock.features[stock.index["n10000"]].tolist() == [1.0, 0.5]
    ragged = [*new[:10_000], {"id": "x", "features": [1.0]}]
    answer = http.patch("/v1/rankers/shop/items", json={"change": ragged}, timeout=60)
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "change[10000].features: 1 numbers, the first item has 2",
    )
    away = {"remove": [f"n{n}" for n in range(20_000)] * 2}
    assert http.patch("/v1/rankers/shop/items", json=away, timeout=60).status_code == 400
    away = {"remove": [f"n{n}" for n in range(20_000)]}
    assert http.patch("/v1/rankers/shop/items", json=away, timeout=60).json()["removed"] == 20_000


def test_items_come_and_go(http, server):
    new = [{"id": f"n{n}", "features": [1.0, n / 5000]} for n in range(5000)]
    patched = http.patch("/v1/rankers/shop/items", json={"add": new, "remove": ["i0", "i1"]}).json()
    assert {name: patched[name] for name in ("items", "added", "changed", "removed")} == {
        "items": 5006, "added": 5000, "changed": 0, "removed": 2,
    }  # fmt: skip
    again = http.patch("/v1/rankers/shop/items", json={"add": new, "remove": ["i0", "i1"]}).json()
    assert (again["version"], again["added"], again["removed"]) == (patched["version"], 0, 0)
    assert http.post("/v1/rankers/shop/rank", json={"candidates": ["i0"]}).status_code == 400
    changes = {"change": [{"id": "i2", "features": [2.0, 0.5]}], "remove": [item["id"] for item in new]}
    body = msgspec.msgpack.encode(changes)
    kinds = {"content-type": "application/msgpack"}
    assert http.patch("/v1/rankers/shop/items", content=body, headers=kinds).json()["changed"] == 1
    listed = http.get("/v1/rankers/shop/items", params={"limit": 4}).json()
    assert (listed["total"], listed["next"], listed["items"][0]) == (6, 4, {"id": "i2", "features": [2.0, 0.5]})
    rest = http.get("/v1/rankers/shop/items", params={"after": 4}).json()
    assert [item["id"] for item in listed["items"] + rest["items"]] == [f"i{n}" for n in range(2, 8)]
    for _ in range(20):
        assert set(http.post("/v1/rankers/shop/rank").json()["items"]) <= {f"i{n}" for n in range(2, 8)}
    before = server.service.store.newest()
    for wrong, said in (
        ({"add": [{"id": "i2", "features": [1.0, 1.0]}]}, "add[0]: 'i2' is there already"),
        ({"change": [{"id": "x", "features": [1.0, 1.0]}]}, "change[0]: 'x' is not an item"),
        ({"add": [{"id": "x", "features": [1.0]}]}, "features: shape"),
        (
            {"add": [{"id": "x", "features": [1.0, 1.0]}], "remove": ["x"]},
            "remove[0]: 'x' is in add[0], too; name each item once",
        ),
        ({"add": [{"id": "x", "features": [1e200, 1.0]}]}, "features: 1e+200, of 'x', is larger than 1e+30"),
        ({"change": [{"id": "i2", "features": [1e200, 1.0]}]}, "features: 1e+200, of 'i2', is larger than 1e+30"),
        ({"remove": [1]}, "body: "),
    ):
        answer = http.patch("/v1/rankers/shop/items", json=wrong)
        assert answer.status_code == 400
        assert said in answer.json()["detail"]
    assert http.get("/v1/rankers/shop/items?limit=0").status_code == 400
    assert http.patch("/v1/rankers/nobody/items", json={}).status_code == 404
    assert http.patch("/v1/rankers/shop/items", content=b"a,b", headers={"content-type": "text/csv"}).status_code == 415
    assert server.service.store.newest() == before
    frozen = {"positions": 2, "algorithm": "random", "items": ITEMS}
    assert http.put("/v1/rankers/frozen", json=frozen).status_code == 200
    assert http.patch("/v1/rankers/frozen/items", json={"remove": ["i1"]}).status_code == 409
    assert http.post("/v1/rankers/frozen/rank", json={"candidates": ["i1"]}).status_code == 400
    assert http.get("/v1/rankers/frozen/items").json()["items"][7] == {"id": "i7", "features": [1.0, 0.7]}
    sound(server.service, "shop")


@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_a_log_with_features_that_are_too_large_goes_on(tmp_path, monkeypatch, link):
    """Older versions took them, and could not estimate any more: such slates teach nothing, also after a restart."""
    address = f"sqlite:///{tmp_path}/x.db"
    spec = RankerSpec(algorithm="anchored", positions=POSITIONS, dim=DIM, options={"link": link})
    service = Service(open_store(address), seed=0, start=False)
    service.create("free", spec, Stock.empty(DIM))
    rng = np.random.default_rng(0)

    def ask(rows: np.ndarray) -> None:
        slate = service.rank("free", asked=Asked([f"x{n}" for n in range(len(rows))], rows)).slate
        service.feedback([Report(slate, (0, 1), True)])

    with monkeypatch.context() as patch:
        patch.setattr(request_ranker, "LARGEST", np.inf)
        ask(np.full((5, DIM), 1e200))
    for _ in range(30):
        ask(rng.random((5, DIM)))
    service.step()
    service.close()
    service = Service(open_store(address), seed=0, start=False)
    try:
        ask(rng.random((5, DIM)))
        sound(service, "free")
        ranker = service.hosted("free").fold.ranker
        assert service.registry.broken == {}
        assert (int(ranker.state.clock[0]), np.isfinite(ranker.state.moments).all()) == (32, True)
    finally:
        service.close()


def test_rules_of_all_slates(http, server):
    rules = {"exclude": ["i7"], "pin": {"1": "i3"}, "explore": 0.0}
    assert http.put("/v1/rankers/shop/rules", json=rules).json()["rules"] == rules
    assert http.get("/v1/rankers/shop/rules").json()["rules"] == rules
    best = http.post("/v1/rankers/shop/rank").json()["items"]
    assert best[1] == "i3"
    for asked, positions in (({}, 3), ({"candidates": ["i7", "i3", "i4"]}, 2), ({"candidates": ["i4", "i5"]}, 2)):
        ranked = http.post("/v1/rankers/shop/rank", json=asked).json()["items"]
        assert len(ranked) == positions
        assert "i7" not in ranked
        assert ("i3" in ranked) == (asked.get("candidates") != ["i4", "i5"])
    own = {"pin": {"1": "i2"}}  # a request's own pins come first
    assert http.post("/v1/rankers/shop/rank", json=own).json()["items"][1] == "i2"
    banned = http.post("/v1/rankers/shop/rank", json={"pin": {"0": "i7"}})
    assert (banned.status_code, banned.json()["detail"]) == (
        400,
        "pin: 'i7' is excluded by the rules of this ranker; pin another one",
    )
    assert all(http.post("/v1/rankers/shop/rank").json()["items"] == best for _ in range(20))  # nothing is explored
    assert http.patch("/v1/rankers/shop/items", json={"remove": ["i3"]}).json()["removed"] == 1
    assert "i3" not in http.post("/v1/rankers/shop/rank").json()["items"]
    for wrong in ({"pin": {"3": "i1"}}, {"explore": 2}, {"pin": {"0": "a", "1": "a"}}, {"pins": {}}):
        assert http.put("/v1/rankers/shop/rules", json=wrong).status_code == 400
    assert http.put("/v1/rankers/shop/rules", json={}).json()["rules"] == {"exclude": [], "pin": {}, "explore": 1.0}
    sound(server.service, "shop")


def use(service: Service, rounds: int, rng: np.random.Generator, name: str = "shop") -> None:
    """Requests of all kinds, some answered twice and some never."""
    for number in range(rounds):
        stock = service.hosted(name).stocked.stock
        names = [str(stock.names[place]) for place in rng.permutation(stock.alive)[:5].tolist()]
        kind = number % 4
        asked = (
            Asked() if kind == 0 else Asked(names, segment=[None, "phone"][number % 2], pin={0: names[0]} if kind == 3 else {})
        )
        if kind == 2:
            asked = Asked(["x", "y"], rng.standard_normal((2, DIM)))
        ranked = service.rank(name, asked=asked)
        clicks = tuple(k for k in range(len(ranked.items)) if rng.random() < 0.4)
        if number % 7:
            assert service.feedback([Report(ranked.slate, clicks, True)]) == ["learned"]
        if number % 5 == 0:
            assert service.feedback([Report(ranked.slate, clicks, True)])[0] in ("learned", "duplicate")
        if number % 6 == 0:
            stock = service.hosted(name).stocked.stock
            add = ([f"n{service.store.newest()}"], [[1.0, float(rng.random())]]) if len(stock) < 12 else ((), ())
            remove = [str(rng.choice(list(stock.index)))] if len(stock) > 6 else []
            service.change_items(name, Wanted(*add, remove=remove))
        service.step()


def test_folding_is_what_the_library_learns(tmp_path):
    """The literal twin of the compiled fold: every slate of the log, adopted and learned by a ranker of the library."""
    service = Service(open_store(f"sqlite:///{tmp_path}/x.db"), seed=0, start=False, settings=Settings(refresh=0))
    try:
        service.create("shop", SPEC, CATALOGUE)
        use(service, 120, np.random.default_rng(0))
        while service.lag():
            service.step()
        hosted = service.hosted("shop")
        ranker = rr.Anchored(CATALOGUE, positions=POSITIONS, rounds=1000, seed=0)
        slates: dict[int, RequestSlate] = {}
        clicked: dict[str, int] = {}
        for event in service.store.events(0, 10**6, hosted.stored.number):
            if event.kind == Kind.ITEMS:
                remove, _, _, add, features = msgspec.msgpack.decode(event.payload)
                if remove:
                    ranker.remove(remove)
                if add:
                    ranker.add(add, np.frombuffer(features).reshape(-1, DIM))
                for gone in remove:
                    clicked.pop(gone, None)
            elif event.kind == Kind.SERVED:
                shown = unpack_request(event.payload)
                rows = np.frombuffer(shown.rows()).reshape(-1, DIM)
                free = ~np.isin(np.arange(len(rows)), shown.pinned)
                slates[event.seq] = RequestSlate(
                    items=np.arange(len(rows)), marks=np.full((len(rows), 2), -1), number=len(slates), ranker=ranker.identity,
                    features=rows, free=free, segment=shown.segment, done=shown.done, change=shown.change,
                    names=tuple(shown.names),
                )  # fmt: skip
                ranker.adopt(slates[event.seq])
            elif event.kind == Kind.LEARNED:
                slate = slates[event.served]
                clicks = unpack_clicks(event.clicks, POSITIONS)[: len(slate)]
                ranker.learn(slate, clicks)
                for name, click in zip(slate.names, clicks, strict=True):
                    if click and name in ranker.catalogue.index:
                        clicked[name] = clicked.get(name, 0) + 1
        assert ranker.save() == hosted.fold.ranker.save()
        fold = hosted.fold
        counted = {name: int(fold.clicked[place]) for name, place in fold.stocked.stock.index.items()}
        assert {name: count for name, count in counted.items() if count} == clicked
        assert fold.counts["learned"] > 90
    finally:
        service.close()


def test_what_was_learned_survives_restarts(address):
    """Snapshots, the items kept beside the log, and the log itself give the same bytes, on either store."""
    rng = np.random.default_rng(1)
    for _ in range(3):
        settings = Settings(refresh=0, snapshot_events=20, snapshot_seconds=0.0)
        service = Service(open_store(address), seed=0, start=False, settings=settings)
        try:
            service.create("shop", SPEC, CATALOGUE)
            use(service, 30, rng)
            some = [next(iter(service.stocked("shop").stock.index))]
            for number in range(KEEP):
                service.change_items("shop", Wanted(change=some, change_features=[[1.0, number + rng.random()]]))
            service.step()
            sound(service, "shop")
            known = service.hosted("shop").stocked
        finally:
            service.close()
    service = Service(open_store(address), seed=0, start=False)
    try:
        found = service.hosted("shop").stocked
        assert (found.seq, found.stock.fingerprint) == (known.seq, known.stock.fingerprint)
        sound(service, "shop")
        service.delete("shop")
        assert service.create("shop", SPEC, CATALOGUE)
        assert service.hosted("shop").stocked.seq == 0
        assert verify(service.store).faults == []
    finally:
        service.close()


def test_no_server_shows_what_another_has_removed(database):
    """Two servers on one store, neither of which reads the log by itself: the transaction decides."""
    first, second = (Service(open_store(database), seed=seed, start=False) for seed in (0, 1))
    try:
        first.create("shop", SPEC, CATALOGUE)
        second.step()
        second.registry.synchronise(threading.Event())
        for number in range(6):
            one, other = (first, second) if number % 2 else (second, first)
            gone = next(iter(one.stocked("shop").stock.index))
            one.rank("shop"), other.rank("shop")  # drawn ahead on both
            assert one.change_items("shop", Wanted([f"n{number}"], [[1.0, 9.0 + number]], remove=[gone])).removed == 1
            for _ in range(5):
                assert gone not in other.rank("shop").items
                assert gone not in one.rank("shop").items
            assert f"n{number}" in other.stocked("shop").stock.index
        rules = msgspec.structs.replace(first.stocked("shop").rules, exclude=["i7"])
        first.set_rules("shop", rules)
        assert all("i7" not in second.rank("shop").items for _ in range(5))
        sound(first, "shop")
    finally:
        first.close()
        second.close()


def test_changes_at_the_same_time(tmp_path):
    service = Service(open_store(f"sqlite:///{tmp_path}/x.db"), seed=0, start=False)
    try:
        service.create("shop", RankerSpec(algorithm="anchored", positions=2, dim=DIM), Stock.empty(DIM))

        def change(worker: int) -> None:
            for number in range(10):
                service.change_items("shop", Wanted([f"{worker}-{number}"], [[1.0, worker + number / 10]]))

        threads = [threading.Thread(target=change, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(service.stocked("shop").stock) == 40
        assert len(service.rank("shop").items) == 2
        sound(service, "shop")
    finally:
        service.close()


def test_the_clients_make_requests(http, server):
    rows = np.random.default_rng(0).random((6, DIM))
    names = [f"x{n}" for n in range(6)]

    async def use() -> tuple[list[str], dict]:
        async with rr.AsyncClient(server.url) as client:
            slate = await client.rank("free", candidates=names, features=rows, segment="phone", exclude={"x0"}, pin={1: "x3"})
            assert await client.feedback(slate, clicked=[1]) == "learned"
            return slate.items, await client.change_items("shop", add=[("new", [1.0, 0.5])], remove=["i0"])

    with rr.Client(server.url) as client:
        assert client.create("free", POSITIONS, algorithm="anchored", dim=DIM) is False
        slate = client.rank("free", "again", candidates=names, features=rows.astype(np.float32), positions=2, propensity=True)
        assert len(slate.items) == 2
        assert client.rank("free", "again", candidates=["y"], features=rows[:1]).items == slate.items
        assert len(client.rank("shop", candidates=np.array(["i1", "i2"]), context=None).items) == 2
        items, changed = asyncio.run(use())
        assert items[1] == "x3"
        assert "x0" not in items
        assert (changed["added"], changed["removed"], changed["items"]) == (1, 1, 8)
        assert client.change_items("shop", change=[("new", [1.0, 0.25])])["changed"] == 1
        assert {item["id"]: item["features"] for item in client.items("shop")["items"]}["new"] == [1.0, 0.25]
        assert client.set_rules("shop", exclude=["i7"], pin={0: "new"})["rules"]["pin"] == {"0": "new"}
        assert client.rank("shop").items[0] == "new"
        with pytest.raises(rr.client.ServiceError, match="candidates\\[0\\]: 'i0' is not an item"):
            client.rank("shop", candidates=["i0"])
        with pytest.raises(TypeError, match="'candidate' is not a field"):
            client.rank("shop", candidate=["i1"])


def test_a_log_of_requests_can_be_exported(tmp_path):
    import pyarrow.parquet as pq

    from recurrank.serving.audit import export

    service = Service(open_store(f"sqlite:///{tmp_path}/x.db"), seed=0, start=False)
    try:
        service.create("shop", SPEC, CATALOGUE)
        use(service, 20, np.random.default_rng(2))
        export(service.store, tmp_path / "log.parquet")
    finally:
        service.close()
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert {"served", "learned", "items"} <= {row["kind"] for row in rows}
    assert all(len(row["clicks"]) == len(row["items"]) for row in rows if row["kind"] == "learned")
    assert all(row["items"] is None for row in rows if row["kind"] == "items")

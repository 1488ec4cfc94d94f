"""Items that come and go under `balanced` and `recurrank` in the service: indices are given again, names never lie."""

from __future__ import annotations

import threading

import httpx
import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.serving.test_http import Server
from tests.serving.test_requests import sound

from recurrank.catalogue import Catalogue
from recurrank.rankers import make
from recurrank.rankers.stock import Stock
from recurrank.serving.asked import Asked
from recurrank.serving.audit import export
from recurrank.serving.changes import KEEP, ItemChanges, Wanted, changed
from recurrank.serving.erase import erase
from recurrank.serving.events import Kind, slate_size, unpack_clicks, unpack_items
from recurrank.serving.experiment import RolloutSettings
from recurrank.serving.http.gate import Limits
from recurrank.serving.retention import Policy, Retention
from recurrank.serving.retention_worker import answer
from recurrank.serving.service import Conflict, Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report
from recurrank.serving.trial import bare, trial_of
from recurrank.serving.verify import verify
from recurrank.slate import Slate

K = 3
BOTH = ["balanced", "recurrank"]
FEATURES = np.random.default_rng(0).uniform(0.1, 1.0, (9, 2))
CATALOGUE = Catalogue(FEATURES, [f"i{n}" for n in range(9)])
ITEMS = [{"id": name, "features": row.tolist()} for name, row in zip(CATALOGUE.ids, FEATURES, strict=True)]
OPTIONS = {"balanced": {}, "recurrank": {"delta": 1.0}}


def spec(algorithm: str, **more) -> RankerSpec:
    return RankerSpec(algorithm=algorithm, positions=K, rounds=1000, options=OPTIONS[algorithm], **more)


def stepped(address: str, **settings) -> Service:
    """A service whose learner runs when it is told to."""
    return Service(open_store(address), seed=0, start=False, settings=Settings(refresh=0, renew=1, **settings))


def shop(service: Service, rounds: int, rng: np.random.Generator, every: int = 6) -> None:
    """Slates, clicks on most of them, some of them late, and items that come, change and go."""
    late: list[tuple[str, tuple[int, ...]]] = []
    for number in range(rounds):
        ranked = service.rank("shop", propensity=True)
        stock = service.stocked("shop").stock
        assert set(ranked.items) <= set(stock.index)
        report = ranked.slate, tuple(k for k in range(K) if rng.random() < 0.4)
        if number % 4 == 0:
            late.append(report)
        elif number % 11:
            assert service.feedback([Report(*report, True)]) == ["learned"]
        if number % every == 0:
            names = list(stock.index)
            add = [f"n{service.store.newest()}"] if len(names) < 12 else []
            gone = [str(rng.choice(names))] if len(names) > 6 else []
            other = [name for name in names[:1] if name not in gone and number % 4 == 0]
            rows = rng.uniform(0.1, 1.0, (2, 2))
            service.change_items("shop", Wanted(add, rows[: len(add)], other, rows[1 : 1 + len(other)], gone))
        if len(late) > 3:
            assert service.feedback([Report(*late.pop(0), True)]) == ["learned"]
        service.step()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('restocking')}/x.db", limits=Limits())
    yield running
    running.stop()


@pytest.mark.parametrize("algorithm", BOTH)
def test_over_http(server, algorithm):
    at = f"/v1/rankers/{algorithm}"
    with httpx.Client(base_url=server.url, timeout=120) as http:
        assert http.put(at, json={"algorithm": algorithm, "positions": K, "items": ITEMS}).json()["created"]
        early = http.post(f"{at}/rank").json()
        gone = early["items"][0]
        assert http.get(f"{at}/items").json()["total"] == 9
        patch = {"add": [{"id": "new", "features": [0.5, 0.5]}], "remove": [gone]}
        done = http.patch(f"{at}/items", json=patch).json()
        assert {**done, "version": 0} == {"version": 0, "items": 9, "added": 1, "changed": 0, "removed": 1}
        again = http.patch(f"{at}/items", json=patch).json()
        assert (again["version"], again["added"], again["removed"]) == (done["version"], 0, 0)
        for _ in range(30):
            slate = http.post(f"{at}/rank").json()
            assert gone not in slate["items"]
            assert http.post("/v1/feedback", json=[{"slate": slate["slate"], "clicks": [0]}]).json()[0]["status"] == "learned"
        listed = {item["id"] for item in http.get(f"{at}/items").json()["items"]}
        assert listed == {*CATALOGUE.ids, "new"} - {gone}
        assert http.post(f"{at}/rank", json={"slate": early["slate"]}).json()["items"] == early["items"]
        assert http.post("/v1/feedback", json=[{"slate": early["slate"], "clicks": [0]}]).json()[0]["status"] == "learned"
        few = http.patch(f"{at}/items", json={"remove": sorted(listed)[:7]})
        assert few.status_code == 400
        assert few.json()["detail"] == "ids: 2 items would be left for 3 positions; leave at least as many"
        assert http.get(f"{at}/items").json()["total"] == 9
        assert http.put(f"{at}/rules", json={"exclude": ["i1"]}).status_code == 409
    server.service.delete(algorithm)


def test_other_algorithms_refuse(tmp_path):
    service = stepped(f"sqlite:///{tmp_path}/x.db")
    try:
        service.create("shop", RankerSpec(algorithm="toprank", positions=K), CATALOGUE)
        with pytest.raises(Conflict, match="name: the items of 'shop' stay as they are; its algorithm 'toprank' needs that"):
            service.change_items("shop", Wanted(remove=["i1"]))
        service.create("films", spec("balanced"), CATALOGUE)
        with pytest.raises(Conflict, match="'films' takes no rules"):
            service.rules("films")
    finally:
        service.close()


class Twin:
    """The literal fold: a ranker of the library that is told, slate by slate, what the log says."""

    def __init__(self, algorithm: str) -> None:
        self.ranker = make(algorithm, features=CATALOGUE, positions=K, rounds=1000, seed=0, **OPTIONS[algorithm])
        self.stock, self.since = Stock.of(CATALOGUE), dict.fromkeys(CATALOGUE.ids, 0)
        self.slates: dict[int, tuple[list[str], Slate]] = {}
        self.clicked: dict[str, int] = {}
        self.changed = 0

    def apply(self, event) -> None:
        if event.kind == Kind.ITEMS:
            changes = msgspec.msgpack.decode(event.payload, type=ItemChanges)
            self.stock = changed(self.stock, changes)
            self.ranker.restock(self.stock)
            self.changed = event.seq
            for name in changes.remove:
                del self.since[name]
                self.clicked.pop(name, None)
            self.since |= dict.fromkeys([*changes.add, *changes.change], event.seq)
        elif event.kind == Kind.SERVED:
            items = np.array(unpack_items(event.payload, K))
            names, marks = [self.stock.names[item] for item in items], np.full((K, 2), -1)
            known = bare(event.payload)[4 * K : slate_size(event.payload, K)]
            marks[: len(known) // 16] = np.frombuffer(known, "<i8").reshape(-1, 2)
            self.slates[event.seq] = names, Slate(items, marks, len(self.slates), self.ranker.identity)
            self.ranker.adopt(self.slates[event.seq][1])
        elif event.kind == Kind.LEARNED:
            self.learn(*self.slates[event.served], event)
        elif event.kind == Kind.DROPPED:
            self.ranker.drop(self.slates[event.served][1])

    def learn(self, names: list[str], slate: Slate, event) -> None:
        clicks, seen = unpack_clicks(event.clicks, K), np.ones(K, bool)
        items, marks = slate.items.copy(), slate.marks.copy()
        for k, name in enumerate(names):
            if self.since.get(name, event.seq) < event.served:
                items[k] = self.stock.index[name]
                if clicks[k]:
                    self.clicked[name] = self.clicked.get(name, 0) + 1
            else:
                seen[k:] = False
        if event.served < self.changed:
            used = marks[:, 0] >= 0
            marks[used] = self.ranker.carried(marks[used])
        self.ranker.learn(Slate(items, marks, slate.number, slate.ranker), clicks & seen, seen)


@pytest.mark.parametrize("algorithm", BOTH)
def test_folding_is_what_the_library_learns(algorithm, tmp_path):
    service, twin = stepped(f"sqlite:///{tmp_path}/x.db"), Twin(algorithm)
    try:
        service.create("shop", spec(algorithm), CATALOGUE)
        shop(service, 150, np.random.default_rng(3))
        sound(service, "shop")
        fold = service.hosted("shop").fold
        for event in service.store.events(0, 10**6):
            twin.apply(event)
        assert twin.ranker.save() == fold.ranker.save()
        counted = {name: int(fold.clicked[place]) for name, place in fold.stocked.stock.index.items()}
        assert {name: count for name, count in counted.items() if count} == twin.clicked
        assert fold.counts["learned"] > 100
    finally:
        service.close()


@pytest.mark.parametrize("algorithm", BOTH)
def test_an_index_that_is_given_again(algorithm, tmp_path):
    """A late answer teaches nothing about the item that has the index now; asked for again, and exported, it has its names."""
    service = stepped(f"sqlite:///{tmp_path}/x.db")
    try:
        service.create("shop", spec(algorithm), Catalogue(FEATURES))  # ids are their numbers
        slates = []
        for turn in range(3):
            slates.append(service.rank("shop"))
            gone, stock = slates[-1].items[0], service.stocked("shop").stock
            before = stock.index[gone]
            service.change_items("shop", Wanted([f"new {turn}"], [[0.2, 0.3]], remove=[gone]))
            assert service.stocked("shop").stock.index[f"new {turn}"] == before
        service.step()
        fold = service.hosted("shop").fold
        fields = ("moments", "sums") if algorithm == "balanced" else ("short", "clicks")
        known = [getattr(fold.ranker.state, field).copy() for field in fields]
        for slate in slates:
            assert service.feedback([Report(slate.slate, (0, 1, 2), True)]) == ["learned"]
        service.step()
        assert all(np.array_equal(one, getattr(fold.ranker.state, field)) for one, field in zip(known, fields, strict=True))
        assert fold.counts == {"served": 3, "learned": 3, "dropped": 0, "clicks": 9}
        index = fold.stocked.stock.index
        assert [int(fold.clicked[index[f"new {turn}"]]) for turn in range(3)] == [
            sum(f"new {turn}" in slate.items for slate in slates) for turn in range(3)
        ]
        assert [service.rank("shop", slate.slate).items for slate in slates] == [slate.items for slate in slates]
        export(service.store, tmp_path / "log.parquet")
        rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
        for kind in ("served", "learned"):
            named = {row["slate"]: row["items"] for row in rows if row["kind"] == kind}
            assert named == {slate.slate: slate.items for slate in slates}
        sound(service, "shop")
    finally:
        service.close()


def test_a_late_answer_about_position_1_counts(tmp_path):
    """Nothing stands above position 1: for Balanced its clicks hold after a change, if the item is there as it was."""
    service = stepped(f"sqlite:///{tmp_path}/x.db")
    try:
        service.create("shop", spec("balanced"), CATALOGUE)
        for change, counts in (("another", True), ("below", True), ("first", False), ("features", False)):
            slate = service.rank("shop")
            others = [name for name in service.stocked("shop").stock.index if name not in slate.items]
            first, below, other = slate.items[0], slate.items[1], others[0]
            remove = {"another": [other], "below": [below], "first": [first]}.get(change, [])
            add = [f"for {name}" for name in remove]
            different = [first] if change == "features" else []
            service.change_items("shop", Wanted(add, [[0.4, 0.6]] * len(add), different, [[0.9, 0.1]] * len(different), remove))
            service.step()
            state = service.hosted("shop").fold.ranker.state
            before = float(np.trace(state.moments[0]))
            service.feedback([Report(slate.slate, (0,), True)])
            service.step()
            assert (float(np.trace(service.hosted("shop").fold.ranker.state.moments[0])) > before) == counts, change
        sound(service, "shop")
    finally:
        service.close()


@pytest.mark.parametrize("algorithm", BOTH)
def test_restarts_give_the_same_bytes(algorithm, address):
    rng = np.random.default_rng(1)
    for turn in range(2):
        service = stepped(address, snapshot_events=20, snapshot_seconds=0.0)
        try:
            service.create("shop", spec(algorithm), CATALOGUE)
            shop(service, 20, rng)
            some = [next(iter(service.stocked("shop").stock.index))]
            for _ in range(KEEP if turn else 1):
                service.change_items("shop", Wanted(change=some, change_features=rng.uniform(0.1, 1, (1, 2))))
            service.step()
            sound(service, "shop")
            saved, known = service.hosted("shop").fold.save(), service.stocked("shop")
        finally:
            service.close()
    service = stepped(address)
    try:
        assert service.hosted("shop").fold.save() == saved
        found = service.stocked("shop")
        assert (found.seq, found.items, found.stock.fingerprint) == (known.seq, known.items, known.stock.fingerprint)
        shop(service, 10, rng)
        sound(service, "shop")
    finally:
        service.close()


@pytest.mark.parametrize("algorithm", BOTH)
def test_a_follower_shows_nothing_that_was_removed(algorithm, database):
    """Two servers on one PostgreSQL, one of which learns; each changes items, and the other has drawn slates ahead."""
    first = stepped(database, snapshot_seconds=0.0)
    second = Service(open_store(database), seed=1, start=False)
    try:
        first.create("shop", spec(algorithm), CATALOGUE)
        second.registry.synchronise(threading.Event())
        slates = []
        for number in range(6):
            one, other = (first, second) if number % 2 else (second, first)
            slates += [one.rank("shop"), other.rank("shop")]
            gone = slates[-1].items[0]
            assert one.change_items("shop", Wanted([f"n{number}"], [[0.5, number / 10]], remove=[gone])).removed == 1
            for _ in range(5):
                assert gone not in other.rank("shop").items
                assert gone not in one.rank("shop").items
            first.store.snapshots_wanted = first.store.newest()
            first.step()
            second.learner._looked = -1e9  # time to look for snapshots
            second.step()
            assert second.hosted("shop").fold.stocked.items == first.hosted("shop").fold.stocked.items
        for slate in slates:
            assert second.rank("shop", slate.slate).items == slate.items
            assert second.feedback([Report(slate.slate, (0,), True)]) == ["learned"]
        first.step()
        sound(first, "shop")
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("algorithm", BOTH)
def test_uniform_slates_show_what_is_there(algorithm, tmp_path):
    service = stepped(f"sqlite:///{tmp_path}/x.db")
    try:
        service.create("shop", spec(algorithm, explore_uniform=0.5), CATALOGUE)
        service.change_items("shop", Wanted(["a", "b"], [[0.1, 0.2], [0.3, 0.4]], remove=["i2", "i5", "i7", "i8"]))
        there, shown = set(service.stocked("shop").stock.index), set()
        for _ in range(60):
            ranked = service.rank("shop", propensity=True)
            shown |= set(ranked.items)
            assert ranked.joint >= 0.5 / (7 * 6 * 5) - 1e-9
        assert shown == there
        sound(service, "shop")
    finally:
        service.close()


def test_beside_a_baseline(tmp_path):
    """Ids stand beside a slate together with its subject and its arm; erasing the subject leaves them."""
    service = stepped(f"sqlite:///{tmp_path}/x.db")
    try:
        service.create("shop", spec("balanced"), CATALOGUE)
        service.change_items("shop", Wanted(["new"], [[0.9, 0.9]], remove=["i0"]))
        service.set_rollout("shop", lambda _: RolloutSettings(mode="share", share=0.5))
        ranked = [
            service.rank("shop", asked=Asked(baseline=["new", "i1", "i2"], subject=f"visitor {number}")) for number in range(12)
        ]
        assert {one.arm for one in ranked} == {"ranker", "baseline"}
        assert all(one.items == ["new", "i1", "i2"] for one in ranked if one.arm == "baseline")
        shown = next(f"visitor {number}" for number, one in enumerate(ranked) if one.arm == "baseline")
        with pytest.raises(ValueError, match="baseline: 'i0' is not among the items that can be shown here"):
            service.rank("shop", asked=Asked(baseline=["new", "i1", "i0"], subject=shown))
        assert erase(service.store, "visitor 3").log == 1
        events = [event for event in service.store.events(0, 100) if event.kind == Kind.SERVED]
        assert [trial_of(event.payload).names for event in events[:12]] == [one.items for one in ranked]
        service.feedback([Report(one.slate, (0,), True) for one in ranked])
        sound(service, "shop")
    finally:
        service.close()


@pytest.mark.parametrize("algorithm", BOTH)
def test_old_events_leave_the_log(algorithm, tmp_path):
    """After retention the log begins with the items as they were then; slates from before still have their ids."""
    address = f"sqlite:///{tmp_path}/x.db"
    store = open_store(address)
    retention = Retention(store, address, Policy(events=100, archive=f"{tmp_path}/archive"), work=answer)
    service = Service(store, seed=0, start=False, settings=Settings(refresh=0, snapshot_seconds=0.0), retention=retention)
    try:
        service.create("shop", spec(algorithm), CATALOGUE)
        early = service.rank("shop")
        shop(service, 120, np.random.default_rng(5))
        assert retention.step() > 0
        assert service.store.floor().seq > 50
        assert service.rank("shop", early.slate).items == early.items
        shop(service, 10, np.random.default_rng(6))
        saved = service.hosted("shop").fold.save()
    finally:
        service.close()
    service = stepped(address)
    try:
        assert service.hosted("shop").fold.save() == saved
        assert verify(service.store).faults == []
        assert service.rank("shop", early.slate).items == early.items
        export(service.store, tmp_path / "log.parquet")
        rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
        assert next(row["items"] for row in rows if row["slate"] == early.slate) == early.items
    finally:
        service.close()


@pytest.mark.parametrize("algorithm", BOTH)
def test_a_mode_whose_event_has_left_the_log(algorithm, tmp_path):
    """Items never changed, the mode did, and that event is gone: after a restart slates are drawn, and modes change."""
    address = f"sqlite:///{tmp_path}/x.db"
    store = open_store(address)
    retention = Retention(store, address, Policy(events=20), work=answer)
    service = Service(store, seed=0, start=False, settings=Settings(refresh=0, snapshot_seconds=0.0), retention=retention)
    try:
        service.create("shop", spec(algorithm), CATALOGUE)
        service.set_rollout("shop", lambda _: RolloutSettings(mode="share", share=1.0))
        for _ in range(40):
            slate = service.rank("shop", asked=Asked(baseline=CATALOGUE.ids)).slate
            service.feedback([Report(slate, (0,), True)])
            service.step()
        assert retention.step() > 0
        assert service.store.changes(service.hosted("shop").stored.number, 0) == []
    finally:
        service.close()
    service = stepped(address)
    try:
        assert len(service.rank("shop", asked=Asked(baseline=CATALOGUE.ids)).items) == K
        service.set_rollout("shop", lambda _: RolloutSettings(mode="full"))
        assert service.change_items("shop", Wanted(remove=["i0"])).items == 8
        assert "i0" not in service.rank("shop").items
    finally:
        service.close()


def test_sizes_are_judged_change_by_change(tmp_path):
    """Two changes that are fine one after the other are so for a server that learns of both at once."""
    address = f"sqlite:///{tmp_path}/x.db"
    service = stepped(address)
    try:
        service.create("shop", spec("balanced"), CATALOGUE)
        with pytest.raises(ValueError, match="5e\\+07 is more than a million times"):
            service.change_items("shop", Wanted(["large"], np.array([[5e7, 1.0]])))
        for name, size in (("large", 1e4), ("larger", 1e8)):
            service.change_items("shop", Wanted([name], np.array([[size, 1.0]])))
    finally:
        service.store.close()  # and not the service, which would take a snapshot
    service = stepped(address)
    try:
        assert service.registry.broken == {}
        assert set(service.rank("shop").items) <= {*CATALOGUE.ids, "large", "larger"}
    finally:
        service.close()

"""The service over a store: slates once, feedback once, the same bytes from the same log, windows by the clock it is given."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections import Counter

import numpy as np
import psycopg
import pytest

import recurrank as rr
from recurrank.catalogue import Catalogue
from recurrank.serving.events import Kind, slate_size
from recurrank.serving.fold import COUNTS, Fold, new_fold
from recurrank.serving.service import Conflict, NotFound, Service, Settings
from recurrank.serving.spec import RankerSpec
from recurrank.serving.store import open_store
from recurrank.serving.store.records import Report

ITEMS, K = 30, 4


class Time:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def config(**changes) -> RankerSpec:
    basic = {"algorithm": "recurrank", "positions": K, "rounds": 5000, "seed": 3, "window_seconds": 60.0, "unreported": "drop"}
    return RankerSpec(**{**basic, "options": {}, **changes})


@pytest.fixture(scope="module")
def problem():
    return rr.synthetic(items=ITEMS, dim=3, seed=2)


@pytest.fixture
def catalogue(problem):
    return Catalogue(problem.features, [f"item {i}" for i in range(ITEMS)])


@pytest.fixture
def begin(address):
    """Services on one store, one after the other; the learner steps when told."""
    running = []

    def start(clock=None, **changes) -> Service:
        for service in running:
            service.close()
        running[:] = [
            Service(open_store(address), clock or Time(), seed=1, start=False, settings=Settings(refresh=0), **changes)
        ]
        return running[0]

    yield start
    for service in running:
        service.close()


def replayed(service: Service, name: str) -> bytes:
    """The state from the log alone."""
    hosted = service.hosted(name)
    fold = new_fold(hosted.spec, hosted.catalogue)
    fold.apply(service.store.events(0, 10**6, hosted.stored.number))
    return fold.save()


def literal(service: Service, name: str) -> tuple:
    """The state from the log, an event at a time, by the library's own calls: the twin of the compiled fold."""
    hosted = service.hosted(name)
    ranker = new_fold(hosted.spec, hosted.catalogue).ranker
    k, counts = ranker.positions, Counter()
    shown, clicked, at = np.zeros(len(hosted.catalogue)), np.zeros(len(hosted.catalogue)), np.zeros(k)
    for event in service.store.events(0, 10**6, hosted.stored.number):
        if event.kind not in (Kind.SERVED, Kind.LEARNED, Kind.DROPPED):
            continue
        items = np.frombuffer(event.payload[: 4 * k], "<i4").astype(np.int64)
        marks = np.full((k, 2), -1, np.int64)
        explored = np.frombuffer(event.payload[4 * k : slate_size(event.payload, k)], "<i8").reshape(-1, 2)
        marks[: len(explored)] = explored
        slate = rr.Slate(items, marks, 0, ranker.identity)
        if event.kind == Kind.SERVED:
            ranker.adopt(slate)
            counts["served"] += 1
        elif event.kind == Kind.DROPPED:
            ranker.drop(slate)
            counts["dropped"] += 1
        else:
            clicks = np.array([bool(event.clicks) and bool(event.clicks[i // 8] >> i % 8 & 1) for i in range(k)])
            ranker.learn(slate, clicks)
            counts["learned"] += 1
            counts["clicks"] += int(clicks.sum())
            shown[items] += 1
            clicked[items] += clicks
            at += clicks
    return ranker.save(), {**dict.fromkeys(COUNTS, 0), **counts}, shown.tolist(), clicked.tolist(), at.tolist()


@pytest.mark.parametrize("algorithm", ["recurrank", "toprank", "cascade-linucb", "batchrank"])
def test_the_compiled_fold_is_its_literal_twin(tmp_path, problem, catalogue, algorithm):
    """Slates learned, dropped, reported in parts and open, of more than eight positions; folded in pieces of any size."""
    clock, rng = Time(), np.random.default_rng(0)
    settings = Settings(refresh=0, expire=0)
    service = Service(open_store(f"sqlite:///{tmp_path}/x.db"), clock, seed=1, start=False, settings=settings)
    service.create("films", config(algorithm=algorithm, positions=11, rounds=200), catalogue)
    model = rr.clicks.DocumentBased(problem.attraction)
    for _ in range(40):
        for ranked in [service.rank("films") for _ in range(8)]:
            clicks = np.flatnonzero(model.sample([catalogue.ids.index(item) for item in ranked.items], rng))
            if rng.random() < 0.3:
                service.feedback([Report(ranked.slate, tuple(clicks[:1]), False)])
            if rng.random() < 0.8:
                service.feedback([Report(ranked.slate, tuple(clicks), True)])
        clock.now += 20
        service.step()
    hosted = service.hosted("films")
    events, twin = service.store.events(0, 10**6, hosted.stored.number), literal(service, "films")
    assert {event.kind for event in events} == {1, 2, 3, 4, 5}
    for chunk in (1, 7, 10**6):
        fold = new_fold(hosted.spec, hosted.catalogue)
        for start in range(0, len(events), chunk):
            fold.apply(events[start : start + chunk])
        assert (fold.ranker.save(), fold.counts, fold.shown.tolist(), fold.clicked.tolist(), fold.at.tolist()) == twin, chunk
        assert fold.seq == events[-1].seq
        before = fold.save()
        fold.apply(events)  # they are of the past
        assert fold.save() == before
    service.close()


@pytest.mark.parametrize("damage", ["short", "odd", "long", "item", "clicks"])
def test_an_event_that_cannot_be_is_refused_and_those_before_it_are_folded(tmp_path, catalogue, damage):
    service = Service(open_store(f"sqlite:///{tmp_path}/x.db"), Time(), seed=1, start=False)
    service.create("films", config(), catalogue)
    service.feedback([Report(service.rank("films").slate, (0,), True) for _ in range(5)])
    hosted = service.hosted("films")
    events = service.store.events(0, 100, hosted.stored.number)
    good = events[5]
    wrong = {
        "short": good._replace(payload=good.payload[: 4 * K - 4]),
        "odd": good._replace(payload=good.payload + b"123"),
        "long": good._replace(payload=good.payload[: 4 * K] + bytes(16 * (K + 1))),
        "item": good._replace(payload=np.array([ITEMS, 0, 1, 2], "<i4").tobytes()),
        "clicks": good._replace(clicks=b"123"),
    }[damage]
    fold, sound = new_fold(hosted.spec, hosted.catalogue), new_fold(hosted.spec, hosted.catalogue)
    with pytest.raises(ValueError, match=f"^event {good.seq}: "):
        fold.apply([*events[:5], wrong, *events[6:]])
    sound.apply(events[:5])
    assert fold.save() == sound.save()
    service.close()


def test_rank_and_learn(begin, catalogue, problem):
    service = begin()
    assert service.create("films", config(), catalogue)
    model, rng = rr.clicks.DocumentBased(problem.attraction), np.random.default_rng(0)
    for _ in range(400):
        ranked = service.rank("films")
        assert len(set(ranked.items)) == K
        places = [catalogue.ids.index(item) for item in ranked.items]
        clicks = tuple(int(k) for k in np.flatnonzero(model.sample(places, rng)))
        assert service.feedback([Report(ranked.slate, clicks, True)]) == ["learned"]
        service.step()
    status = service.status("films")
    assert (status["served"], status["learned"], status["open"], status["dropped"]) == (400, 400, 0, 0)
    assert status["blocks"][0]["phase"] > 1
    assert 0 < status["click_rate"] < K
    assert status["best"][0]["low"] < status["best"][0]["high"]
    assert service.hosted("films").fold.save() == replayed(service, "films")


def test_the_same_id_is_the_same_slate(begin, catalogue):
    service = begin()
    service.create("films", config(), catalogue)
    first = service.rank("films", "mine")
    assert service.rank("films", "mine").items == first.items
    service.feedback([Report("mine", (0,), True)])
    assert service.rank("films", "mine").items == first.items
    again = begin()
    assert again.rank("films", "mine").items == first.items
    again.step()
    assert again.status("films")["served"] == 1
    again.create("other", config(seed=9), catalogue)
    with pytest.raises(Conflict, match=r"^slate: "):
        again.rank("other", "mine")


def test_what_becomes_of_reports(begin, catalogue):
    clock = Time()
    service = begin(clock)
    service.create("films", config(), catalogue)
    ids = [service.rank("films").slate for _ in range(4)]
    one, two, three, four = ids
    assert service.feedback(
        [
            Report(one, (1, 2), True),
            Report(one, (1, 2), True),
            Report(two, (0,), False),
            Report(two, (0,), False),
            Report(two, (3,), False),
            Report("nobody", (), True),
            Report(three, (K,), True),
            Report(three, (-1,), True),
        ]
    ) == ["learned", "duplicate", "open", "open", "open", "unknown", "invalid", "invalid"]
    assert service.feedback([Report(two, (), True)]) == ["learned"]
    service.step()
    clock.now += 59
    service.step()
    assert service.feedback([Report(four, (2,), False)]) == ["open"]
    clock.now += 2
    service.step()  # windows close: three never reported, four only in part
    service.step()
    status = service.status("films")
    assert (status["learned"], status["dropped"], status["open"]) == (3, 1, 0)
    assert service.feedback([Report(three, (0,), True), Report(four, (0,), True)]) == ["late", "late"]
    assert status["clicks"] == 5  # 1 and 2 of one, 0 and 3 of two, 2 of four
    assert service.hosted("films").fold.save() == replayed(service, "films")


def test_silence_can_count_as_no_click(begin, catalogue):
    clock = Time()
    service = begin(clock)
    service.create("films", config(unreported="no_click"), catalogue)
    service.rank("films")
    service.step()
    clock.now += 61
    service.step()
    service.step()
    status = service.status("films")
    assert (status["learned"], status["dropped"], status["clicks"]) == (1, 0, 0)


def test_a_dropped_slate_is_asked_for_again(begin, catalogue):
    clock = Time()
    service = begin(clock)
    service.create("films", config(), catalogue)
    before = service.hosted("films").fold.ranker.state.left.copy()
    for _ in range(7):
        service.rank("films")
    service.step()
    assert service.hosted("films").fold.ranker.state.left.sum() == before.sum() - 7
    clock.now += 61
    service.step()
    service.step()
    assert service.hosted("films").fold.ranker.state.left.tolist() == before.tolist()


def test_a_new_start_finds_everything(begin, catalogue, problem):
    clock = Time()
    service = begin(clock)
    service.create("films", config(), catalogue)
    waiting = [service.rank("films").slate for _ in range(50)]
    service.feedback([Report(slate, (0,), True) for slate in waiting[:30]])
    service.step()
    before = service.hosted("films").fold.save()
    again = begin(clock)  # with a snapshot, which close() took
    assert again.hosted("films").fold.save() == before
    assert again.status("films")["open"] == 20
    assert again.feedback([Report(slate, (0,), True) for slate in waiting]) == ["duplicate"] * 30 + ["learned"] * 20
    again.step()
    assert again.hosted("films").fold.save() == replayed(again, "films")


@pytest.mark.parametrize("damage", ["torn", "altered", "gone"])
def test_a_snapshot_that_is_not_whole_is_made_up_for_by_the_log(begin, catalogue, address, damage):
    service = begin()
    service.create("films", config(), catalogue)
    service.feedback([Report(service.rank("films").slate, (0,), True) for _ in range(60)])
    service.step()
    before = service.hosted("films").fold.save()
    service.close()
    if address.startswith("sqlite"):
        database, table, mark = sqlite3.connect(address.removeprefix("sqlite:///"), isolation_level=None), "snapshots", "?"
    else:
        database, table, mark = psycopg.connect(address, autocommit=True), "recurrank_snapshots", "%s"
    with contextlib.closing(database):
        (state,) = database.execute(f"SELECT state FROM {table}").fetchone()
        wrong = {"torn": state[:-10], "altered": state[:500] + b"x" + state[501:]}.get(damage)
        if wrong is None:
            database.execute(f"DELETE FROM {table}")
        else:
            database.execute(f"UPDATE {table} SET state = {mark}", (wrong,))
    again = Service(open_store(address), Time(), start=False)
    try:
        assert again.hosted("films").fold.save() == before
    finally:
        again.close()


def test_rankers_by_name(begin, catalogue, problem):
    service = begin()
    assert service.create("films", config(), catalogue)
    assert not service.create("films", config(), catalogue)  # the same one again
    with pytest.raises(Conflict, match=r"^name: "):
        service.create("films", config(seed=4), catalogue)
    with pytest.raises(ValueError, match=r"^positions: "):
        service.create("more", config(positions=ITEMS + 1), catalogue)
    assert service.names() == ["films"]
    slate = service.rank("films").slate
    service.delete("films")
    for call in (service.delete, service.rank, service.status):
        with pytest.raises(NotFound, match=r"^name: "):
            call("films")
    assert service.feedback([Report(slate, (0,), True)]) == ["unknown"]
    assert service.create("films", config(seed=4), catalogue)  # the name is free again
    service.step()
    assert service.status("films")["served"] == 0
    assert begin().names() == ["films"]


@pytest.mark.parametrize("algorithm", ["toprank", "cascade-linucb", "batchrank"])
def test_other_algorithms_are_folds_too(begin, catalogue, problem, algorithm):
    service = begin()
    service.create("films", config(algorithm=algorithm), catalogue)
    model, rng = rr.clicks.DocumentBased(problem.attraction), np.random.default_rng(0)
    for _ in range(60):
        ranked = [service.rank("films") for _ in range(5)]
        for one in ranked:
            places = [catalogue.ids.index(item) for item in one.items]
            clicks = tuple(int(k) for k in np.flatnonzero(model.sample(places, rng)))
            service.feedback([Report(one.slate, clicks, True)])
        service.step()
    saved = service.hosted("films").fold.save()
    assert saved == replayed(service, "films")
    assert Fold.load(saved, catalogue).save() == saved


def test_each_report_many_times_from_many_threads_is_the_sequential_run(address, tmp_path, catalogue):
    """Slates fixed beforehand; every report one to five times, shuffled, 16 threads; the fold sees each once."""
    service = Service(open_store(address), seed=1)
    try:
        service.create("films", config(), catalogue)
        slates = [service.rank("films", f"s{i}").slate for i in range(300)]
        rng = np.random.default_rng(0)
        clicks = {slate: tuple(int(k) for k in np.flatnonzero(rng.random(K) < 0.4)) for slate in slates}
        reports = [Report(s, clicks[s], True) for s in slates for _ in range(int(rng.integers(1, 6)))]
        rng.shuffle(reports)
        outcomes: list[str] = []

        def send(part) -> None:
            for report in part:
                outcomes.extend(service.feedback([Report(report[0], tuple(report[1]), bool(report[2]))]))

        threads = [threading.Thread(target=send, args=(reports[i::16],)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count("learned") == 300
        assert outcomes.count("duplicate") == len(reports) - 300
        service.step()
        fold = service.hosted("films").fold
        assert fold.counts["learned"] == 300
        assert fold.counts["clicks"] == sum(map(len, clicks.values()))
        assert fold.save() == replayed(service, "films")
        # answers within one phase add up, whatever their order: the same state as one after the other
        calm = Service(open_store(f"sqlite:///{tmp_path}/calm.db"), seed=1, start=False)
        calm.create("films", config(), catalogue)
        for slate in slates:
            calm.rank("films", slate)
        for slate in slates:
            calm.feedback([Report(slate, clicks[slate], True)])
        calm.step()
        assert calm.hosted("films").fold.counts == fold.counts
        calm.close()
    finally:
        service.close()


def test_one_server_a_file(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    with pytest.raises(ValueError, match="in use by another server"):
        open_store(f"sqlite:///{tmp_path}/x.db")
    store.close()
    open_store(f"sqlite:///{tmp_path}/x.db").close()


@pytest.mark.parametrize("wrong", ["moon", "mysql://x", "sqlite://", "sqlite:///", "sqlite:///no/such/folder/x.db"])
def test_bad_addresses(wrong):
    with pytest.raises(ValueError, match=r"^store: "):
        open_store(wrong)

"""A subject that is erased is in no file afterwards; what was learned stays, and the log can still be verified."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
from pathlib import Path

import httpx
import msgspec
import psycopg
import pyarrow.parquet as pq
import pytest
from tests import prepared
from tests.dashboard.running import Server
from tests.serving.growing import Running

from recurrank import cli
from recurrank.logs.formats import ubi
from recurrank.logs.formats.ubi import write as write_ubi
from recurrank.serving import chain
from recurrank.serving.asked import Asked
from recurrank.serving.audit import export, replay
from recurrank.serving.backup import backup
from recurrank.serving.erase import erase
from recurrank.serving.retention import Policy
from recurrank.serving.store import open_store
from recurrank.serving.store import postgres as postgres_store
from recurrank.serving.store.records import Report, Serve
from recurrank.serving.trial import Trial, bare, trial_of
from recurrank.serving.verify import verify

WHO, OTHER = "visitor-of-many-pages", "somebody-else-entirely"


def asked(service, slates: int) -> None:
    for number in range(slates):
        for who in (WHO, OTHER):
            slate = service.rank("films", asked=Asked(subject=who)).slate
            if number % 2:
                service.feedback([Report(slate, (0,), True)])


@pytest.fixture
def erasing(address, tmp_path):
    """A store with both subjects in the log, below its floor and in its archive; and its states."""
    running = Running(address, Policy(events=1000, archive=f"{tmp_path}/archive"), window=1e6)
    asked(running.service, 30)
    running.rounds(700)
    asked(running.service, 5)
    running.states()
    assert running.service.retention.step() > 0
    states = running.states()
    running.service.close()
    return running, states


def files(tmp_path) -> bytes:
    return b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "pgdata" not in str(path))


def test_a_subject_is_erased_and_nothing_else(erasing, tmp_path):
    running, states = erasing
    store = open_store(running.address)
    export(store, tmp_path / "before.parquet")
    table = pq.read_table(tmp_path / "before.parquet")
    slates = {
        slate for slate, who in zip(*(table.column(c).to_pylist() for c in ("slate", "subject")), strict=True) if who == WHO
    }
    assert len(slates) == 35
    done = erase(store, WHO, exports=[tmp_path / "before.parquet"])
    assert done.archive == 30
    assert done.log >= 5 + 15  # those that stayed below the floor, too
    assert done.exports[str(tmp_path / "before.parquet")] >= 35
    assert erase(store, WHO, exports=[tmp_path / "before.parquet"])[:3] == (0, 0, {str(tmp_path / "before.parquet"): 0})
    assert verify(store).faults == []
    assert all(replay(store, stored).faults == [] for stored in store.rankers())
    export(store, tmp_path / "after.parquet")
    subjects = pq.read_table(tmp_path / "after.parquet").column("subject").to_pylist()
    assert WHO not in subjects
    assert subjects.count(OTHER) >= 35
    before = pq.read_table(tmp_path / "before.parquet").to_pydict()
    assert before == pq.read_table(tmp_path / "after.parquet").to_pydict()
    assert not any(WHO.encode() in row[5] for row in store.raw(0, 10**6))
    store.close()
    assert WHO.encode() not in files(tmp_path)
    running.start()
    assert running.states() == states
    running.service.close()


def without_salt(service, subject: str, slate: str) -> Serve:
    """A slate of a subject as it was written before there were salts."""
    drawn, packed = service.hosted("films").draw(), msgspec.msgpack.encode(Trial(subject))
    alone = bare(drawn.payload)
    payload = alone[:3] + bytes((alone[3] ^ 0x40,)) + alone[4:] + packed + len(packed).to_bytes(4, "little")
    assert trial_of(payload) == Trial(subject)
    return Serve(slate, service.hosted("films").stored.number, payload, drawn.stock)


def test_subjects_that_were_written_before_there_were_salts(address, tmp_path):
    """The chain was made of them: what has taken their place is noted, and other changes of these events are still found."""
    running = Running(address, Policy(events=1000, archive=f"{tmp_path}/archive"), window=1e6)
    service = running.service
    service.store.commit([without_salt(service, who, f"{who} {n}") for n in range(10) for who in (WHO, OTHER)])
    service.feedback([Report(f"{WHO} {n}", (0,), True) for n in range(5)])  # the others are open at the floor
    running.rounds(700)
    running.states()
    assert service.retention.step() > 0
    service.store.commit([without_salt(service, WHO, "in the log alone")])
    states = running.states()
    service.close()
    store = open_store(address)
    assert verify(store).faults == []
    done = erase(store, WHO)
    assert done.archive == 10
    assert done.log == 11
    assert erase(store, WHO)[:3] == (0, 0, {})
    assert verify(store).faults == []
    assert all(replay(store, stored).faults == [] for stored in store.rankers())
    noted = chain.unpack_notes(store.noted_as(chain.REPLACED))
    [(seq, payload)] = [(row[0], row[5]) for row in store.raw(store.floor().seq, 10**6) if row[0] in noted]
    store.replace_slates({seq: payload[:-5] + bytes((payload[-5] ^ 1,)) + payload[-4:]})
    assert any(f"event {seq}" in fault for fault in verify(store).faults)
    store.replace_slates({seq: payload})
    assert verify(store).faults == []
    store.close()
    names = [slate for slate in (f"{WHO} {n}" for n in range(10)) if slate.encode() in files(tmp_path)]
    whole = files(tmp_path)
    for slate in names:  # ids of slates are the caller's, and stay
        whole = whole.replace(slate.encode(), b"")
    assert WHO.encode() not in whole
    running.start()
    assert running.states() == states
    running.service.close()


def test_an_erasure_beside_a_server_leaves_the_floor_where_it_is(database, tmp_path):
    """It writes the floor's seal anew, and the archive; a step of retention in between would be undone."""
    running = Running(database, Policy(events=500, archive=f"{tmp_path}/archive"), window=1e6)
    service, retention = running.service, running.service.retention
    service.store.commit([without_salt(service, WHO, f"{WHO} {n}") for n in range(5)])
    running.rounds(400)
    running.states()
    assert retention.step() > 0
    running.rounds(400)
    states = running.states()
    other, floor = open_store(database), service.store.floor()
    replace, tried = other.replace_slates, []

    def between(*arguments) -> None:
        tried.append(retention.step())
        replace(*arguments)

    other.replace_slates = between
    assert erase(other, WHO) == (5, 5, {}, {f"{tmp_path}/archive": 5})
    assert tried
    assert service.store.floor().seq >= retention.floor >= floor.seq
    assert service.store.floor().seal != floor.seal
    assert retention.step() > 0, retention.failed
    assert verify(other).faults == []
    assert running.states() == states
    other.close()
    service.close()


@pytest.mark.parametrize("reads", ["SELECT count(*) FROM pg_class", "SELECT count(*) FROM recurrank_events"])
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_an_erasure_beside_somebody_elses_transaction(database, tmp_path, monkeypatch, call, reads, isolation):
    """VACUUM FULL keeps what an older snapshot may see, and cannot have a table that a transaction has read."""
    running = Running(database, Policy(events=500, archive=f"{tmp_path}/archive"), window=1e6)
    asked(running.service, 5)
    running.rounds(400)
    running.states()
    assert running.service.retention.step() > 0
    asked(running.service, 5)
    running.service.close()
    monkeypatch.setattr(postgres_store, "WAIT", 0.0)
    monkeypatch.setattr(postgres_store, "PAUSE", 0.05)
    with psycopg.connect(database) as other:
        other.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        other.execute(reads)
        code, _, complaint = call("erase", WHO, "--store", database)
        harmless = isolation == "READ COMMITTED" and "pg_class" in reads
        assert code == (0 if harmless else 2)
        assert harmless or ("erase again" in complaint and complaint.count("\n") == 1)
        assert not archived_subjects(tmp_path)  # the archive is not left out
        monkeypatch.setattr(postgres_store, "WAIT", 60.0)
        threading.Timer(0.2, other.close).start()
        assert call("erase", WHO, "--store", database)[0] == 0  # it waits
    with psycopg.connect(database, autocommit=True) as look:
        look.execute("CHECKPOINT")
        [(folder, file)] = look.execute("SELECT current_setting('data_directory'), pg_relation_filepath('recurrank_events')")
    table = Path(folder, file).read_bytes()
    assert OTHER.encode() in table
    assert WHO.encode() not in table


def test_two_erasures_at_once(database, tmp_path):
    """Each notes what has taken the place of events; neither loses the other's notes."""
    running = Running(database, None, window=1e6)
    running.service.store.commit([without_salt(running.service, who, f"{who} {n}") for n in range(5) for who in (WHO, OTHER)])
    running.service.close()
    first, second = open_store(database), open_store(database)
    note, begun = first.note, threading.Event()
    later = threading.Thread(target=lambda: (begun.wait(), erase(second, OTHER)))

    def slow(*arguments) -> None:
        begun.set()
        later.join(1)  # it has time enough to write all of its own
        note(*arguments)

    first.note = slow
    later.start()
    assert erase(first, WHO).log == 5
    later.join()
    assert len(chain.unpack_notes(first.noted_as(chain.REPLACED))) == 10
    assert verify(first).faults == []
    first.close()
    second.close()


def test_a_subject_is_on_no_page_and_in_no_export(tmp_path):
    """As a visitor of the server sees it: all pages and answers about a ranker, and exports of both formats."""
    address = f"sqlite:///{tmp_path}/log.db"
    running = Running(address, None)
    asked(running.service, 10)
    running.states()
    running.service.close()
    store = open_store(address)
    export(store, tmp_path / "export.parquet")
    write_ubi(tmp_path / "export.parquet", tmp_path / "export.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "export.jsonl").read_text().splitlines()]
    whose = [WHO, OTHER]
    for number, line in enumerate(lines):  # as whoever joins them with other data adds it
        line |= {"client_id": whose[number % 2], "event_attributes": {"object": {"user": [whose[number % 2]]}}}
    for line in lines:
        if "query_response_hit_ids" in line:
            line["query_response_hit_ids"].append("7")
    (tmp_path / "export.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    exports = [tmp_path / "export.parquet", tmp_path / "export.jsonl"]
    done = erase(store, WHO, exports=exports)
    assert done.exports == {str(exports[0]): 15, str(exports[1]): (len(lines) + 1) // 2}
    assert erase(store, WHO, exports=exports).exports == dict.fromkeys(map(str, exports), 0)
    left = [json.loads(line) for line in (tmp_path / "export.jsonl").read_text().splitlines()]
    assert left[1::2] == lines[1::2]
    assert [line["query_id"] for line in left] == [line["query_id"] for line in lines]
    assert erase(store, "7", exports=exports).exports == dict.fromkeys(map(str, exports), 0)  # an item is called so
    store.close()
    assert WHO.encode() not in files(tmp_path)
    assert OTHER.encode() in files(tmp_path)
    server = Server(address)
    try:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            paths = ["/", "/rankers/films", "/rankers/films/data", "/rankers/films/events", "/metrics", "/readyz"]
            paths += ["/v1/rankers", "/v1/rankers/films", "/v1/rankers/films/experiment", "/v1/rankers/films/export"]
            answers = {path: http.get(path) for path in paths}
    finally:
        server.stop()
    assert sum(answer.status_code == 200 for answer in answers.values()) >= 6
    assert not [path for path, answer in answers.items() if WHO in answer.text]


def test_a_backup_is_a_store_too(tmp_path):
    running = Running(f"sqlite:///{tmp_path}/log.db", None)
    asked(running.service, 10)
    running.states()
    backup(running.address, tmp_path / "copy.db")
    running.service.close()
    store = open_store(f"sqlite:///{tmp_path}/copy.db")
    assert erase(store, WHO).log == 10
    assert verify(store).faults == []
    store.close()
    assert WHO.encode() not in (tmp_path / "copy.db").read_bytes()
    assert OTHER.encode() in (tmp_path / "copy.db").read_bytes()


def test_what_a_killed_export_has_left_goes(tmp_path, call, monkeypatch):
    """Exports of other formats are made of a table beside them."""
    running = Running(f"sqlite:///{tmp_path}/log.db", None)
    asked(running.service, 10)
    running.states()
    running.service.close()

    def killed(*_: object) -> None:
        raise RuntimeError

    path = tmp_path / "x.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(ubi, "write", killed)
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(RuntimeError):
            cli.group.main(["log", "export", str(path), "--format", "ubi", "--store", running.address], standalone_mode=False)
    left = tmp_path / "x.jsonl.events.parquet"
    assert WHO in pq.read_table(left).column("subject").to_pylist()
    (tmp_path / "x.jsonl.partial").write_text(WHO)
    (tmp_path / "x.jsonl.events.parquet.partial").write_text(WHO)
    assert call("erase", WHO, "--store", running.address, "--export", str(path))[0] == 0
    assert not list(tmp_path.glob("x.jsonl*"))
    assert "not an export" in call("erase", WHO, "--store", running.address, "--export", str(path))[2]


def test_what_will_not_do(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    with pytest.raises(ValueError, match="subject: it is empty"):
        erase(store, "")
    with pytest.raises(ValueError, match="not an export"):
        erase(store, "x", exports=[tmp_path / "none.parquet"])
    (tmp_path / "none.jsonl").write_text("subject\n")
    with pytest.raises(ValueError, match="not an export"):
        erase(store, "x", exports=[tmp_path / "none.jsonl"])
    assert erase(store, "x") == (0, 0, {}, {})
    store.close()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.jsonl", b'{"user_id": "%s"}\n\nbroken\n' % WHO.encode(), r"x\.jsonl, line 3: not JSON \(Expecting value"),
        ("x.jsonl", b'{"user_id": "%s"}\n{"a": "\xff"}\n' % WHO.encode(), r"x\.jsonl, line 2: not JSON \('utf-8'"),
        ("x.parquet", b"PAR1 and no more", r"x\.parquet: it cannot be read as Parquet"),
    ],
    ids=["not JSON", "not UTF-8", "not Parquet"],
)
def test_an_export_that_cannot_be_read_is_named_and_nothing_is_erased(tmp_path, monkeypatch, call, name, content, says):
    running = built(tmp_path, monkeypatch, "archive")
    good, bad = Path("good.jsonl"), Path(name)
    good.write_text(f'{{"user_id": "{WHO}"}}\n')
    bad.write_bytes(content)
    code, out, err = call("erase", WHO, "--store", running.address, "--export", str(good), "--export", name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(says, err)
    assert bad.read_bytes() == content
    assert WHO in good.read_text()
    assert archived_subjects(Path("archive"))
    bad.unlink()
    assert call("erase", WHO, "--store", running.address, "--export", str(good))[0] == 0
    assert WHO not in good.read_text()
    assert not archived_subjects(Path("archive"))


def built(tmp_path, monkeypatch, archive: str) -> Running:
    """A service in a folder of its own, whose archive has the subject; it is closed."""
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    running = Running("sqlite:///log.db", Policy(events=1000, archive=archive), window=1e6)
    asked(running.service, 10)
    running.rounds(700)
    running.states()
    assert running.service.retention.step() > 0, running.service.retention.failed
    running.service.close()
    return running


def again(running: Running, **policy) -> Running:
    """The same with other options, after another step of retention."""
    running.policy = Policy(events=1000, **policy)
    running.start()
    running.rounds(300)
    running.states()
    assert running.service.retention.step() > 0, running.service.retention.failed
    running.service.close()
    return running


def archived_subjects(folder) -> bool:
    return any(
        WHO.encode() in payload
        for path in folder.rglob("*.parquet")
        for payload in pq.read_table(path).column("payload").to_pylist()
    )


@pytest.mark.parametrize("spelled", ["./archive", "../shop//archive/", "archive"])
def test_a_relative_archive_is_erased_from_any_folder(tmp_path, monkeypatch, call, spelled):
    built(tmp_path, monkeypatch, spelled)
    left = tmp_path / "shop/archive/ranker-1/2026-11-18.1-9.parquet"  # as a process leaves it that was killed
    left.write_text(WHO)
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    code, out, _ = call("erase", WHO, "--store", f"sqlite:///{tmp_path}/shop/log.db")
    assert (code, out) == (0, f"log: erased from 10 slates\narchive {tmp_path}/shop/archive: erased from 10 slates\n")
    assert not archived_subjects(tmp_path)
    assert not left.exists()


def test_an_archive_that_is_not_where_the_store_says_is_one_line_and_erases_nothing(tmp_path, monkeypatch, call):
    """Such as a relative one, as older versions noted it."""
    built(tmp_path, monkeypatch, "archive")
    store = open_store("sqlite:///log.db")
    store.raise_floor(msgspec.structs.replace(store.floor(), archive="archive"), {}, {})
    store.note("archives", msgspec.msgpack.encode([]))
    before = store.raw(0, 10**6)
    store.close()
    monkeypatch.chdir(tmp_path)
    command = ["erase", WHO, "--store", f"sqlite:///{tmp_path}/shop/log.db"]
    code, _, complaint = call(*command)
    assert (code, complaint.count("\n")) == (2, 1)
    assert f"archive: {tmp_path}/archive ends with event 0" in complaint
    store = open_store(f"sqlite:///{tmp_path}/shop/log.db")
    assert store.raw(0, 10**6) == before
    store.close()
    assert call(*command, "--archive", "shop/archive")[0] == 0
    assert not archived_subjects(tmp_path)


def test_events_are_not_dropped_behind_an_archive_unless_that_is_said(tmp_path, monkeypatch, call):
    running = built(tmp_path, monkeypatch, "archive")
    archive = f"{tmp_path}/shop/archive"
    command = ["serve", "--store", running.address, "--retain", "1000"]
    done = prepared.run([sys.executable, "-m", "recurrank", *command], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"events of this log went to {archive}; give --archive, or --drop" in done.stderr
    with monkeypatch.context() as environment:
        environment.setenv("RECURRANK_RETAIN", "1000")
        told = call("doctor", "--store", running.address)
    assert "wrong archive: archive: events of this log went to" in told[1]
    assert "give one of both" in call(*command, "--drop", "--archive", archive)[2]
    assert "drop: nothing is dropped without --retain" in call("serve", "--store", running.address, "--drop")[2]
    again(running, drop=True)
    assert f"archive: none; before: {archive}\n" in call("doctor", "--store", running.address)[1]
    code, out, _ = call("erase", WHO, "--store", running.address, "--archive", archive)
    assert (code, f"archive {archive}: erased from 10 slates" in out) == (0, True)
    assert call("erase", WHO, "--store", running.address)[1] == out.replace("10 slates", "0 slates")
    assert not archived_subjects(tmp_path)


def test_archives_of_before_are_erased_or_asked_for(tmp_path, monkeypatch, call):
    running = built(tmp_path, monkeypatch, "archive")
    old, new = f"{tmp_path}/shop/archive", f"{tmp_path}/shop/copy"
    shutil.copytree(old, new)
    again(running, archive=new)
    erasing = ["erase", WHO, "--store", running.address]
    shutil.move(old, f"{tmp_path}/away")
    code, _, complaint = call(*erasing)
    assert (code, complaint.count("\n")) == (2, 1)
    assert f"{old} may have events of this log, and there is no archive there" in complaint
    assert f"not there: {old}" in call("doctor", "--store", running.address)[1]
    assert archived_subjects(tmp_path / "shop/copy")
    assert "is not an archive of this log" in call(*erasing, "--gone", new + "2")[2]
    shutil.move(f"{tmp_path}/away", old)
    code, out, _ = call(*erasing)
    assert (code, f"archive {old}: erased" in out, f"archive {new}: erased" in out) == (0, True, True)
    assert not archived_subjects(tmp_path)
    shutil.rmtree(old)
    assert call(*erasing, "--gone", old)[0] == 0
    assert call(*erasing)[0] == 0  # it is forgotten


def test_an_archive_that_was_moved_is_erased_where_it_is(tmp_path, monkeypatch, call):
    running = built(tmp_path, monkeypatch, "archive")
    shutil.move("archive", "moved")
    assert call("erase", WHO, "--store", running.address, "--archive", "moved")[0] == 0
    assert not archived_subjects(tmp_path)

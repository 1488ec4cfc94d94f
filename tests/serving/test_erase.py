"""A subject that is erased is in no file afterwards; what was learned stays, and the log can still be verified."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.serving.growing import Running

from recurrank.serving.asked import Asked
from recurrank.serving.audit import export, replay
from recurrank.serving.backup import backup
from recurrank.serving.erase import erase
from recurrank.serving.retention import Policy
from recurrank.serving.store import open_store
from recurrank.serving.store.base import Report
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
    assert erase(store, WHO, exports=[tmp_path / "before.parquet"]) == (0, 0, {str(tmp_path / "before.parquet"): 0})
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


def test_what_will_not_do(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    with pytest.raises(ValueError, match="subject: it is empty"):
        erase(store, "")
    with pytest.raises(ValueError, match="not an export"):
        erase(store, "x", exports=[tmp_path / "none.parquet"])
    assert erase(store, "x") == (0, 0, {})
    store.close()

"""Snapshots that are not what the log gives are dropped: the log is folded anew, and retention goes on."""

from __future__ import annotations

import pytest
from tests.serving.growing import Running, grown

from recurrank.serving.audit import replay
from recurrank.serving.refold import refold
from recurrank.serving.retention import Policy
from recurrank.serving.store import open_store


def faults(address: str) -> list[str]:
    store = open_store(address)
    found = [fault for stored in store.rankers() for fault in replay(store, stored).faults]
    store.close()
    return found


def test_retention_goes_on_after_it(address, tmp_path):
    running = Running(address, Policy(events=1000, archive=f"{tmp_path}/archive"))
    running.rounds(1000)
    assert running.service.retention.step() > 0
    running.service.hosted("films").fold.clicked[0] += 1  # as another processor's last bits would
    running.rounds(500)
    assert running.service.retention.step() == 0
    running.service.close()
    assert faults(address)

    store = open_store(address)
    assert list(refold(store, "films")) == ["films"]
    assert {ranker for ranker, _ in store.snapshot_places()} == {2}
    store.close()
    running.start()
    running.service.step()
    running.rounds(500)
    assert running.service.retention.step() > 0, running.service.retention.failed
    running.service.close()
    assert faults(address) == []


def test_nothing_is_dropped_that_could_not_be_folded_again(tmp_path):
    for policy in (Policy(events=1000), Policy(events=1000, archive=f"{tmp_path}/archive")):
        address = f"sqlite:///{tmp_path}/{policy.archive is None}.db"
        grown(address, policy, 1000).service.close()
        for file in tmp_path.glob("archive/ranker-1/*.parquet"):
            file.unlink()
        store = open_store(address)
        before = store.snapshot_places()
        with pytest.raises(ValueError, match=r"were dropped.*restore a backup|is missing"):
            refold(store)
        with pytest.raises(ValueError, match="none called 'x'"):
            refold(store, "x")
        assert store.snapshot_places() == before
        store.close()


def test_it_is_refused_while_a_server_runs(address, call):
    running = Running(address, None)
    running.rounds(150)
    assert running.service.store.lease()
    code, _, complaint = call("log", "refold", "--store", address)
    assert (code, complaint.count("\n")) == (2, 1)
    assert "in use" in complaint
    before = running.service.store.snapshot_places()
    assert before
    running.service.close()
    assert call("log", "refold", "--store", address, "--json") == (0, '{"films": 2, "shop": 2}\n', "")

"""Stores of released versions (``stores/``): they open, and their log folds to the states that the release had."""

from __future__ import annotations

import importlib.util
import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from recurrank.serving.audit import replay
from recurrank.serving.backup import backup
from recurrank.serving.events import Kind
from recurrank.serving.fold import new_fold
from recurrank.serving.history import History
from recurrank.serving.restore import restore
from recurrank.serving.service import Service
from recurrank.serving.store import open_store
from recurrank.serving.verify import verify

STORES = Path(__file__).parent / "stores"


def _writer():
    spec = importlib.util.spec_from_file_location("recurrank_stores_write", STORES / "write.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("version", sorted(path.stem for path in STORES.glob("*.json")))
def test_a_store_of_an_older_version_opens_and_folds_to_the_same_states(tmp_path, version):
    (tmp_path / "log.db").write_bytes(lzma.decompress((STORES / f"{version}.db.xz").read_bytes()))
    wanted = json.loads((STORES / f"{version}.json").read_text())
    writer = _writer()
    clock = writer.Time()  # which stands: no window closes meanwhile
    service = Service(open_store(f"sqlite:///{tmp_path}/log.db"), clock, start=False)
    try:
        assert verify(service.store).faults == []
        assert service.names() == sorted(wanted)
        assert [replay(service.store, one).faults for one in service.store.rankers() if one.name == "cascade-linucb"] == [[]]
        for name, before in wanted.items():
            hosted = service.hosted(name)
            fold = new_fold(hosted.spec, hosted.catalogue)
            fold.apply(list(History(service.store).events(hosted.stored.number)))
            assert service.create(name, hosted.spec, hosted.catalogue) is False  # asked for again, it is the same ranker
            arrays, kept = fold.ranker.pack()[1], hosted.fold.ranker.pack()[1]
            rounded = [array for array in kept if kept[array].dtype.kind == "f"]  # their last bits depend on the processor
            if name == "cascade-linucb":
                del before["arrays"]["state.raw"]  # scores, which became bounds that are not saved
            for found, source in ((fold, "the log alone"), (hosted.fold, "the newest snapshot and the log after it")):
                now = writer.learned(found)
                exact = {array: digest for array, digest in before["arrays"].items() if array not in rounded}
                now["arrays"] = {array: now["arrays"].get(array, "gone") for array in exact}  # it may have more
                assert {name: now} == {name: {**before, "arrays": exact}}, source
            for array in rounded:
                np.testing.assert_allclose(arrays[array], kept[array], rtol=1e-9, atol=1e-12, err_msg=f"{name}: {array}")
    finally:
        service.close()


def test_a_store_of_an_older_version_is_restored_at_an_event_before_the_chain(tmp_path):
    """New events follow, and are chained."""
    (tmp_path / "log.db").write_bytes(lzma.decompress((STORES / "0.1.0.db.xz").read_bytes()))
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    first, created = store.head().first, store.rankers()[-1].number
    seq = next(line.seq for line in store.lines(0, 2**62, 2**62) if (line.ranker, line.kind) == (created, Kind.CREATED)) + 20
    assert seq < first
    store.close()
    backup(f"sqlite:///{tmp_path}/log.db", tmp_path / "copy.db")
    restore(tmp_path / "copy.db", f"sqlite:///{tmp_path}/new.db", str(seq))
    service = Service(open_store(f"sqlite:///{tmp_path}/new.db"), _writer().Time(), start=False)
    service.rank(service.names()[0])
    assert service.store.head()[::2] == (seq + 1, seq + 1)
    assert verify(service.store).faults == []
    service.close()

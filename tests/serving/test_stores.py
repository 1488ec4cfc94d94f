"""Stores of released versions (``stores/``): they open, and their log folds to the states that the release had."""

from __future__ import annotations

import importlib.util
import json
import lzma
from pathlib import Path

import pytest

from recurrank.serving.audit import all_events
from recurrank.serving.fold import new_fold
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
        for name, before in wanted.items():
            desk = service.desk(name)
            fold = new_fold(desk.config, desk.catalogue)
            fold.apply(list(all_events(service.store, desk.stored.number)))
            assert service.create(name, desk.config, desk.catalogue) is False  # asked for again, it is the same ranker
            for found, source in ((fold, "the log alone"), (desk.fold, "the newest snapshot and the log after it")):
                now = writer.learned(found)
                now["arrays"] = {array: now["arrays"].get(array, "gone") for array in before["arrays"]}  # it may have more
                assert {name: now} == {name: before}, source
    finally:
        service.close()

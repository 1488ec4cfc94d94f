"""The file of a store has one lock and one file of keys, whatever name it is given."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from recurrank.serving import auth
from recurrank.serving.backup import backup
from recurrank.serving.files import path_of
from recurrank.serving.restore import restore
from recurrank.serving.store import open_store


@pytest.fixture
def link(tmp_path):
    """The address of a link to a store that has a key; its name leads over another link, and another folder."""
    for folder in ("real", "links"):
        (tmp_path / folder).mkdir()
    address = f"sqlite:///{tmp_path}/real/s.db"
    open_store(address).close()
    auth.create(auth.open_keys(address), "shop", ["admin"])
    (tmp_path / "links" / "second.db").symlink_to("../real/s.db")
    (tmp_path / "link.db").symlink_to("links/second.db")
    return f"sqlite:///{tmp_path}/link.db"


def test_a_link_has_the_lock_of_its_store(tmp_path, link):
    with closing(open_store(link)), pytest.raises(ValueError, match="in use by another server"):
        open_store(f"sqlite:///{tmp_path}/real/s.db")
    with closing(open_store(f"sqlite:///{tmp_path}/real/s.db")), pytest.raises(ValueError, match="in use by another server"):
        open_store(link)
    assert not list(tmp_path.rglob("link.db.*"))


def test_a_link_has_the_keys_of_its_store(tmp_path, link):
    keys = auth.open_keys(link)
    assert [key.name for key in keys.all()] == ["shop"]
    auth.create(keys, "more", ["rank"])
    assert [key.name for key in auth.open_keys(f"sqlite:///{tmp_path}/real/s.db").all()] == ["shop", "more"]


def test_a_link_is_backed_up_and_restored_with_its_keys(tmp_path, link):
    assert backup(link, tmp_path / "copy.db").keys
    (tmp_path / "monday.db").symlink_to("copy.db")
    (tmp_path / "new.db").symlink_to("real/new.db")  # of a store that is not there yet
    restored = restore(tmp_path / "monday.db", f"sqlite:///{tmp_path}/new.db")
    assert restored.keys
    assert restored.path == tmp_path / "real" / "new.db"
    assert (tmp_path / "new.db").is_symlink()
    with pytest.raises(ValueError, match=r"s\.db: it is there already"):
        restore(tmp_path / "monday.db", link)


def test_links_that_lead_to_themselves_are_no_file(tmp_path):
    (tmp_path / "loop.db").symlink_to("loop.db")
    assert not path_of(f"sqlite:///{tmp_path}/loop.db").is_file()


@pytest.mark.parametrize("name", ["s.db", "hard.db"])
def test_a_store_with_a_hard_link_is_refused(tmp_path, link, name):
    os.link(tmp_path / "real" / "s.db", tmp_path / "real" / "hard.db")
    for opened in (open_store, auth.open_keys):
        with pytest.raises(ValueError, match=rf"^store: .*{name} has another name \(a hard link\)"):
            opened(f"sqlite:///{tmp_path}/real/{name}")
    os.unlink(tmp_path / "real" / "hard.db")
    open_store(link).close()

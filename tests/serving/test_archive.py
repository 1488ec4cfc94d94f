"""The archive's folder: what was made there, what was not, and what a process that was killed left."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.serving.growing import Running

from recurrank.serving import chain
from recurrank.serving.archive import Archive
from recurrank.serving.archive_files import Remote, address_of
from recurrank.serving.erase import erase
from recurrank.serving.events import Event, Kind
from recurrank.serving.retention import Policy
from recurrank.serving.store import open_store

FOREIGN = ("thesis.txt", "photos/2026-11-18.jpg", "ranker-1/notes.txt", "ranker-1/2026-11-18.parquet", ".profile")


def stored(first: int, last: int, before: bytes = chain.START) -> list[tuple]:
    """Events as they are stored, linked to one another."""
    rows = []
    for seq in range(first, last + 1):
        event = Event(seq, 1, int(Kind.DROPPED), seq - 1, b"", b"", 86_400.0 * 20_000 + seq)
        rows.append((*event, chain.link(before, event)))
        before = rows[-1][-1][: chain.SIZE]
    return rows


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_others_put_into_an_archive_stays(tmp_path):
    archive = Archive(str(tmp_path))
    step = archive.add(chain.START, stored(1, 50))
    own = files(tmp_path)
    put(tmp_path, *FOREIGN, "ranker-1/2026-11-18.90-99.parquet", "ranker-2/2026-11-18.1-2~3.parquet", ".writing-x1/ranker-1")
    archive.add(bytes.fromhex(step.digest), stored(51, 60, bytes.fromhex(step.digest)))
    assert own | set(FOREIGN) < files(tmp_path)
    assert files(tmp_path) - own - set(FOREIGN) == {"ranker-1/2024-10-04.51-60.parquet"}  # what a killed process left is gone
    assert archive.replace(lambda row: row) == 0
    assert own | set(FOREIGN) < files(tmp_path)
    assert [row[0] for row in archive.events(60)] == list(range(1, 61))


@pytest.mark.parametrize("name", [*FOREIGN, "ranker-1/2026-11-18.1-5.parquet"])
def test_a_folder_with_files_is_no_archive(tmp_path, name):
    """The last one may be of an archive whose manifest was lost."""
    put(tmp_path, name)
    archive = Archive(str(tmp_path))
    for refused in (
        archive.check_usable,
        lambda: archive.replace(lambda row: row),
        lambda: archive.add(chain.START, stored(1, 2)),
    ):
        with pytest.raises(ValueError, match=r"has .*no manifest\.json, so it is not an archive") as raised:
            refused()
        assert "\n" not in str(raised.value)
    assert files(tmp_path) == {name}


def test_an_empty_folder_can_become_one(tmp_path):
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".writing-x1").mkdir()  # as a process leaves it that was killed before the manifest was there
    Archive(str(tmp_path)).check_usable()
    assert Archive(str(tmp_path)).add(chain.START, stored(1, 2)).last == 2


def test_a_server_and_an_erasure_leave_other_folders_alone(tmp_path, call):
    put(tmp_path / "home", *FOREIGN)
    address, home = f"sqlite:///{tmp_path}/log.db", f"{tmp_path}/home"
    running = Running(address, Policy(events=1000, archive=home))
    running.rounds(800)
    running.states()
    assert running.service.retention.step() == 0
    assert "so it is not an archive" in running.service.retention.failed
    running.service.close()
    with closing(open_store(address)) as store, pytest.raises(ValueError, match="so it is not an archive"):
        erase(store, "visitor", home)
    for command in ("serve", "doctor"):
        code, out, complaint = call(
            command, *(["--retain", "1000"] if command == "serve" else []), f"--store={address}", f"--archive={home}"
        )
        assert code == 2
        assert "so it is not an archive" in out + complaint
    assert files(tmp_path / "home") == set(FOREIGN)


def test_addresses(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "archive")
    same = ["archive", "./archive", "archive/", f"{tmp_path}//archive", "link/../archive", "link"]
    same += [f"file://{tmp_path}/archive", f"local://{tmp_path}/archive"]
    assert {address_of(spelled) for spelled in same} == {f"{tmp_path}/archive"}
    assert address_of("s3://bucket/folder/") == "s3://bucket/folder"
    apart = "ends with the process"
    for wrong, why in (("", "it is empty"), ("memory://x", apart), ("simplecache::memory://x", apart)):
        (tmp_path / "x.toml").write_text(f'retain = "30d"\narchive = "{wrong}"\n')
        for command in ("serve", "doctor"):
            code, out, complaint = call(command, "--config", "x.toml")
            assert code == 2
            assert f"archive: {wrong}" in out + complaint
            assert why in out + complaint


@pytest.fixture
def remote(tmp_path):
    """Files behind fsspec, as at an address of the network."""
    archive = Archive(f"dir::file://{tmp_path}/remote")
    assert isinstance(archive._files, Remote)
    return archive


def folder_of(tmp_path: Path) -> Path:
    """Where its files are: fsspec takes the path of such an address twice."""
    return tmp_path / "remote" / str(tmp_path / "remote").lstrip("/")


def chained(archive: Archive, *lasts: int) -> None:
    """A step up to each of these events."""
    rows = stored(1, lasts[-1])
    for last in lasts:
        first = archive.manifest().last + 1
        before = rows[first - 2][-1][: chain.SIZE] if first > 1 else chain.START
        archive.add(before, rows[first - 1 : last])


def test_a_remote_archive_survives_a_kill_while_a_manifest_is_written(remote, tmp_path, monkeypatch):
    """There a file is written in parts, over the one that has its name."""
    rows, put = stored(1, 400), Remote.put
    torn = set()

    class Killed(BaseException):
        pass

    def tearing(self, file: Path, name: str) -> None:
        if name.endswith(".json") and name not in torn:
            torn.add(name)
            (tmp_path / "half").write_bytes(file.read_bytes()[:100])
            put(self, tmp_path / "half", name)
            raise Killed
        put(self, file, name)

    chained(remote, 100, 200)
    monkeypatch.setattr(Remote, "put", tearing)
    before = rows[199][-1][: chain.SIZE]
    for kill in range(2):
        with pytest.raises(Killed):
            remote.add(before, rows[200:300])
        assert remote.manifest().last == 200, kill
        assert [row[0] for row in remote.events(200)] == list(range(1, 201))
    assert torn == {"manifest.json", "manifest.previous.json"}
    torn.discard("manifest.json")
    with pytest.raises(Killed):  # the next one begins with a torn manifest, and is killed at the same place
        remote.add(before, rows[200:300])
    assert remote.add(before, rows[200:300]).last == 300
    assert remote.manifest().last == 300
    assert [row[0] for row in remote.events(300)] == list(range(1, 301))
    (folder_of(tmp_path) / "manifest.previous.json").unlink()
    (folder_of(tmp_path) / "manifest.json").write_bytes(b"x")
    with pytest.raises(ValueError, match="manifest cannot be read"):
        remote.manifest()


def test_what_a_killed_process_was_writing_is_removed(remote, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remote.add(chain.START, stored(1, 5))
    with remote._files.workshop() as folder:
        left = folder.with_name(folder.name + "_")
    left.mkdir(mode=0o700)
    (left / "ranker-1").write_text("a subject")
    other = tmp_path / ".writing-0123456789abcdef-x"  # of another archive
    other.mkdir()
    assert remote.replace(lambda row: row) == 0
    assert not left.exists()
    assert other.exists()
    assert files(folder_of(tmp_path)) == {"manifest.json", "manifest.previous.json", "ranker-1/2024-10-04.1-5.parquet"}


def test_what_others_put_into_a_remote_archive_stays(remote, tmp_path):
    put(folder_of(tmp_path), "thesis.txt")
    for refused in (remote.check_usable, lambda: remote.add(chain.START, stored(1, 2))):
        with pytest.raises(ValueError, match=r"has files \(thesis.txt\) and no manifest\.json"):
            refused()
    (folder_of(tmp_path) / "thesis.txt").unlink()
    chained(remote, 2)
    put(folder_of(tmp_path), *FOREIGN, "ranker-1/2026-11-18.90-99.parquet")
    chained(remote, 4)
    assert set(FOREIGN) < files(folder_of(tmp_path))
    assert "ranker-1/2026-11-18.90-99.parquet" not in files(folder_of(tmp_path))


def test_a_remote_address_is_tried(tmp_path, monkeypatch):
    Archive(f"dir::file://{tmp_path}/remote").check_usable()
    assert files(tmp_path) == set()

    def refused(*_: object) -> None:
        raise RuntimeError("no credentials")

    archive = Archive(f"dir::file://{tmp_path}/remote")
    monkeypatch.setattr(archive._files._system, "put_file", refused, raising=False)
    with pytest.raises(ValueError, match=r"cannot be written .*RuntimeError: no credentials"):
        archive.check_usable()


def test_a_new_archive_takes_over_what_the_old_one_has_up_to_an_event(remote, tmp_path):
    chained(remote, 100, 200, 300)
    new, digest = Archive(f"{tmp_path}/new"), stored(1, 200)[-1][-1][: chain.SIZE]
    for seq, wrong in ((200, chain.START), (150, digest)):
        with pytest.raises(ValueError, match="is not one of this log"):
            new.begin(remote, seq, wrong)
    assert not (tmp_path / "new").exists()
    new.begin(remote, 200, digest)
    assert new.manifest().steps == remote.manifest().steps[:2]
    assert list(new.events(200)) == list(remote.events(200))
    file = next((tmp_path / "remote").rglob("*.1-100.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match="was altered"):
        Archive(f"{tmp_path}/newer").begin(remote, 200, digest)
    assert Archive(f"{tmp_path}/newer").manifest().steps == []

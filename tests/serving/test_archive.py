"""The archive's folder: what was made there, what was not, and what a process that was killed left."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.serving.growing import Running

from recurrank.serving import chain
from recurrank.serving.archive import Archive
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

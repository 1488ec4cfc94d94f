"""A store whose file is damaged, or that cannot be read, is one line for every command."""

from __future__ import annotations

import pytest
from tests.serving.growing import Running

from recurrank.serving import doctor


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    running = Running(f"sqlite:///{folder}/log.db", None)
    running.rounds(1000)
    running.service.close()
    with open(folder / "log.db", "r+b") as file:
        file.seek(4096 * 20)
        file.write(b"\x55" * 4096 * 30)
    return running.address


@pytest.mark.parametrize(
    "command", [["erase", "visitor"], ["log", "export", "all.parquet"], ["log", "replay"], ["log", "refold"], ["log", "verify"]]
)
def test_every_command_says_so_in_one_line(damaged, call, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    code, out, complaint = call(*command, "--store", damaged)
    if command == ["log", "verify"]:  # it goes on, and says all that it finds
        assert (code, complaint) == (1, "")
        assert "malformed" in out
    else:
        assert (code, complaint.count("\n")) == (2, 1)
        assert complaint.startswith("recurrank: store: the store cannot be ")
        assert "malformed" in complaint
    assert list(tmp_path.iterdir()) == []


def test_doctor_finds_damage(damaged, call):
    code, out, _ = call("doctor", "--store", damaged)
    assert code == 2
    assert "wrong store: " in out


def test_doctor_does_not_look_for_ever(tmp_path, call, monkeypatch):
    running = Running(f"sqlite:///{tmp_path}/log.db", None)
    running.rounds(200)
    running.service.close()
    command = ("doctor", "--store", running.address)
    assert "damage" not in call(*command)[1]
    monkeypatch.setattr(doctor, "MOST", 1000)
    assert "MB, too large to be searched for damage here: see `recurrank log verify`" in call(*command)[1]

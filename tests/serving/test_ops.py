"""The files of ``ops/`` for systemd and containers, as far as a machine without either can tell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import yaml

from recurrank.cli import group

OPS = Path(__file__).parents[2] / "ops"


def options() -> set[str]:
    command = group.get_command(click.Context(group), "serve")
    return {name for parameter in command.params for name in parameter.opts}


def test_the_unit(tmp_path):
    text = (OPS / "recurrank.service").read_text()
    started = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert started.split()[1] == "serve"
    assert {word for word in started.split() if word.startswith("--")} <= options()
    if analyze := shutil.which("systemd-analyze"):
        program = started.removeprefix("ExecStart=").split()[0]
        (tmp_path / "recurrank.service").write_text(text.replace(program, shutil.which("true")))
        done = subprocess.run([analyze, "verify", tmp_path / "recurrank.service"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_an_image_has_nothing_of_what_runs_beside_its_sources():
    """Layers of an image are public to all who have it; what is removed later stays in them."""
    rules = [line for line in (OPS.parent / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    taken = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert set(taken) == {"src", "pyproject.toml", "README.md", "LICENSE"}  # what a wheel is built from
    assert {"**/.env", "**/*.db*", "**/*.keys*"} <= set(rules[rules.index(f"!{taken[-1]}") :])
    assert (OPS / "compose.yaml").read_text().count("context: ..") == 1  # where the file is looked for


def test_compose():
    document = yaml.safe_load((OPS / "compose.yaml").read_text())
    servers = [document["services"][name] for name in ("one", "two")]
    variables = {f"--{name.removeprefix('RECURRANK_').lower().replace('_', '-')}" for name in servers[0]["environment"]}
    for server in servers:
        assert server["command"][0] == "serve"
        assert {word for word in server["command"] if word.startswith("--")} | variables <= options()
        assert server["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert len({server["ports"][0] for server in servers}) == 2
    assert document["services"]["database"]["image"].startswith("postgres:")
    assert (OPS.parent / servers[0]["build"]["dockerfile"]).is_file()

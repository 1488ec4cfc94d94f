"""The documentation is true: its Python runs, its tables are what the code says, and nothing public is left out."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import click
import pytest

import recurrank as rr
from recurrank.cli import COMMANDS, group

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_example_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert "Traceback" not in capsys.readouterr().out


def test_most_pages_have_an_example():
    with_code = [page.name for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
    assert {"README.md", "clicks.md", "design.md", "embedding.md", "simulate.md", "theory.md"} <= set(with_code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target.split("#")[0]).exists(), target


def test_the_tables_are_what_the_code_and_the_results_say():
    path = ROOT / "docs" / "make_tables.py"
    spec = importlib.util.spec_from_file_location("make_tables", path)
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    for page in tables.PAGES:
        assert page.read_text(encoding="utf-8") == tables.with_table(page), "run: python docs/make_tables.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    section = page.split(f"## `recurrank {name}`")[1].split("\n## ")[0]
    command = group.get_command(click.Context(group), name)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert any(f"`{option}" in section for option in parameter.opts), parameter.opts


def test_every_public_name_is_documented():
    everything = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in rr.__all__:
        public = getattr(rr, name)
        assert public.__doc__, name
        assert re.search(rf"\b{name}\b", everything), name
    for name in rr.clicks.__all__:
        assert re.search(rf"\b{name}\b", everything), name


def test_every_ranker_is_documented():
    page = (ROOT / "docs" / "rankers.md").read_text(encoding="utf-8")
    for name in rr.rankers.names():
        assert f"`{name}`" in page, name


def test_paths_in_the_map_of_the_paper_exist():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|csv))`", page):
        assert (ROOT / "src" / "recurrank" / path).exists(), path


def test_the_changelog_names_this_version_or_has_unreleased_changes():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## Unreleased" in text or rr.__version__ in text

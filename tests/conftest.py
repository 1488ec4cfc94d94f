"""Shared settings of the tests: hypothesis without deadlines (compilation is slow once), and small problems."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import recurrank as rr

settings.register_profile(
    "recurrank", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("recurrank")


def pytest_addoption(parser):
    parser.addoption("--soak", action="store_true", help="the long form of the tests that have one (make soak)")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--soak"):
        left_out = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    algorithms = set(rr.rankers.names())
    items.sort(key=lambda item: _algorithm(item, algorithms))
    items[:] = _long_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))


def _algorithm(item, algorithms: set[str]) -> str:
    """The algorithm that a test is about: tests of one stand together, so that one process compiles it, and not all at once."""
    if not item.nodeid.startswith(("tests/rankers/", "tests/simulation/")) or not hasattr(item, "callspec"):
        return "~"
    return next((value for value in item.callspec.params.values() if isinstance(value, str) and value in algorithms), "~")


def _long_first(items, processes: int):
    """Each process begins with consecutive tests, as many as the others: its share of the long ones stands in front of them."""
    long = [item for item in items if item.get_closest_marker("long")]
    rest = iter([item for item in items if not item.get_closest_marker("long")])
    ordered = []
    for number in range(processes):
        share = long[number::processes]
        ordered += [*share, *itertools.islice(rest, len(items) // processes - len(share))]
    return [*ordered, *rest]


LEFT_OUT = "left out: "
"""How the reason of a test begins that needs something which this machine does not have."""


def pytest_terminal_summary(terminalreporter):
    """What was left out, and how to run it, in the last lines."""
    reasons: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if LEFT_OUT in reason:
            reasons.setdefault(reason.partition(LEFT_OUT)[2], []).append(report.nodeid)
    for reason, tests in reasons.items():
        terminalreporter.write_line(f"{len(tests)} tests were left out: {reason}")
        for test in sorted(tests):
            terminalreporter.write_line(f"  {test}")


@pytest.fixture
def call(capsys):
    """Run a command in this process: its exit code, standard output and standard error."""
    from recurrank.cli import main

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        out = capsys.readouterr()
        return stop.value.code, out.out, out.err

    return run


@pytest.fixture
def soaking(request) -> bool:
    """Whether there is time for the long form."""
    return request.config.getoption("--soak")


@pytest.fixture(scope="session", autouse=True)
def server_log(tmp_path_factory):
    """What servers in the tests' own processes log, as a real one does; when all tests are done, it has no key in it."""
    from tests.serving.running import SECRET

    from recurrank.serving.json_log import log_as_json

    path = tmp_path_factory.mktemp("log") / "server.log"
    with path.open("w", encoding="utf-8", buffering=1) as file:
        log_as_json(file)
        yield path
    assert not SECRET.search(path.read_text(encoding="utf-8")), "a key was written to the log"


@pytest.fixture(scope="session", autouse=True)
def forking_process():
    """What forks processes for tests ends with them."""
    yield
    from tests import prepared

    prepared.end()


@pytest.fixture
def problem():
    return rr.synthetic(items=40, dim=4, seed=3)


@pytest.fixture
def position_model(problem):
    return rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, 6))

"""Real servers in processes of their own, for tests."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time

import numpy as np

from recurrank.client import Client

ITEMS = [(f"i{n}", [1.0, n / 10]) for n in range(8)]
COMMAND = [sys.executable, "-W", "ignore", "-m", "recurrank", "serve", "--port", "0"]


@contextlib.contextmanager
def serving(*arguments: str, **environment: str):
    """A server process, and the address it says it listens at."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+:\d+", line)
        assert found, (line, process.stderr.read() if process.poll() is not None else "")
        yield process, found[0]
    finally:
        process.kill()
        process.communicate(timeout=30)


def use(client: Client, rounds: int, rng: np.random.Generator) -> list[str]:
    slates = []
    for _ in range(rounds):
        slate = client.rank("films")
        assert client.feedback(slate, [k for k in range(2) if rng.random() < 0.5]) == "learned"
        slates.append(slate.slate)
    return slates


def until(condition, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)

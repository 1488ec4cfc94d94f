"""Servers that are killed at a random moment: a process that has loaded everything forks one per line of its input."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

from tests import prepared

FORKING = """
for line in sys.stdin:
    server = os.fork()
    if server == 0:
        serve(*line.split())
    os.waitpid(server, 0)
    say("over")
"""
"""The end of a script whose ``serve(address, round)`` says "ready" and its process id, and then line by line what it did."""


@contextlib.contextmanager
def forking(script: str) -> Iterator[subprocess.Popen]:
    """The process that makes servers."""
    command = [sys.executable, "-c", script + FORKING]
    with prepared.start(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, load=prepared.SERVICE
    ) as process:
        yield process
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def crashed(servers: subprocess.Popen, address: str, round_: int, least: int, most: int) -> list[list[str]]:
    """What a server said, at least ``least`` to ``most`` lines, until it was killed at a random moment."""
    servers.stdin.write(f"{address} {round_}\n")
    servers.stdin.flush()
    said: list[list[str]] = []
    moment = random.Random(round_)
    enough, server = moment.randint(least, most), 0
    for line in servers.stdout:
        words = line.split()
        if words[0] == "over":
            return said
        if words[0] == "ready":
            server = int(words[1])
        else:
            said.append(words)
        if server and len(said) >= enough:
            threading.Timer(moment.uniform(0, 0.02), os.kill, (server, signal.SIGKILL)).start()
            server = 0
    raise AssertionError(servers.stderr.read())

"""A real Dask cluster for tests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests import prepared

PYTHON = [sys.executable, "-W", "ignore"]


class Cluster:
    """A real Dask scheduler and two workers, a process each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[prepared.Process | subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        file = self.folder / "scheduler.json"
        common = ["--scheduler-file", str(file), "--no-dashboard"]
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", *common)
        self._until(file.exists)
        for name in ("one", "two"):
            self._start("worker", "--no-nanny", "--nthreads", "1", "--name", name, "--host", "127.0.0.1", *common)
        from distributed import Client  # takes half a second, and is needed here only

        self.address = json.loads(file.read_text())["address"]
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait(timeout=30)

    def _start(self, what: str, *arguments: str) -> None:
        log = open(self.folder / f"{what}{len(self.processes)}.log", "wb")  # noqa: SIM115  (the process has it)
        command = [*PYTHON, "-m", f"distributed.cli.dask_{what}", *arguments]
        self.processes.append(prepared.start(command, stdout=log, stderr=log, cwd=self.folder))
        log.close()

    def _until(self, condition) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "the cluster did not start"
            time.sleep(0.1)

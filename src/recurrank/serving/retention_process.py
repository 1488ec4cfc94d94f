"""The server's handle on the process of ``retention_worker.py``: started on demand, ended when idle."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import msgspec

from recurrank.serving.retention_worker import Gone, Order, Prepared, Survey, read_message, write_message

COMMAND = (sys.executable, "-m", "recurrank.serving.retention_worker")

IDLE = 60.0
"""Seconds without an order after which the process ends, to free the memory of a Python with all rankers loaded."""

POLITE = 10
"""Niceness of the process, unless the log is far longer than the policy allows."""


class Worker:
    """One process at a time. ``ask`` from one thread; ``stop`` from any."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._politeness = POLITE
        self._used = 0.0
        self._stopped = False
        self._lock = threading.Lock()

    def ask(self, order: Order | Survey, urgent: bool = False) -> Prepared | Gone:
        """The answer of the process, or a fault if it died. Urgent orders run at the server's own priority."""
        process = self._begun(0 if urgent else POLITE)
        answered = b""
        if process is not None and process.stdin is not None and process.stdout is not None:
            try:
                write_message(process.stdin, order)
                answered = read_message(process.stdout)
            except OSError:  # it was killed
                pass
        self._used = time.monotonic()
        kind: type[Prepared | Gone] = Prepared if isinstance(order, Order) else Gone
        if answered:
            return msgspec.msgpack.decode(answered, type=kind)
        status = self.end()
        return kind(fault=f"the worker that verifies and archives ended with status {status}")

    def rest(self) -> None:
        """End the process if it has been idle for ``IDLE`` seconds."""
        if self._process is not None and time.monotonic() - self._used > IDLE:
            self.end()

    def stop(self) -> None:
        """Kill the process, whatever it is doing, and start no other."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()

    def end(self) -> int | None:
        """End the process; returns its exit status, None if there is no process."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        with process:
            return process.wait()

    def _begun(self, politeness: int) -> subprocess.Popen[bytes] | None:
        if self._process is not None and (self._politeness != politeness or self._process.poll() is not None):
            self.end()  # a process cannot regain a priority that it gave up
        with self._lock:
            if self._process is None and not self._stopped:
                self._politeness = politeness
                self._process = subprocess.Popen((*COMMAND, str(politeness)), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            return self._process

"""The process of ``retention_worker.py``, as the server has it: begun when it is needed, ended when it has been idle."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import msgspec

from recurrank.serving.retention_worker import Gone, Order, Prepared, Survey, read_message, write_message

COMMAND = (sys.executable, "-m", "recurrank.serving.retention_worker")

IDLE = 60.0
"""Seconds without an order after which the process ends: it has the memory of a Python with all rankers' code."""

POLITE = 10
"""Niceness, as long as the log is not far longer than it is asked to be."""


class Worker:
    """One process at a time. ``ask`` from one thread; ``stop`` from any."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._politeness = POLITE
        self._used = 0.0
        self._stopped = False
        self._lock = threading.Lock()

    def ask(self, order: Order | Survey, urgent: bool = False) -> Prepared | Gone:
        """What the process answers, or that it died. Where it is urgent, it has the server's own priority."""
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
        """End the process where it has been idle for long."""
        if self._process is not None and time.monotonic() - self._used > IDLE:
            self.end()

    def stop(self) -> None:
        """End the process, whatever it does, and begin no other."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()

    def end(self) -> int | None:
        """End the process; its status, None where there is none."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        with process:
            return process.wait()

    def _begun(self, politeness: int) -> subprocess.Popen[bytes] | None:
        if self._process is not None and (self._politeness != politeness or self._process.poll() is not None):
            self.end()  # a priority that was given up cannot be had back
        with self._lock:
            if self._process is None and not self._stopped:
                self._politeness = politeness
                self._process = subprocess.Popen((*COMMAND, str(politeness)), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            return self._process

"""Worker processes: one per simulation, killed when its page is closed, and one kept ready while a page is open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from recurrank.dashboard.playground.setup import Setup
from recurrank.serving.http.slots import Slot, Slots

RUNS = 2
"""Most simulations at a time."""
SECONDS = 300.0
"""Time limit of one simulation, in seconds."""
IDLE = 600.0
"""Seconds after which an unused worker ends."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment of workers. Matrices are small and processors shared: threads would wait for each other, many times slower."""
COMMAND = (sys.executable, "-m", "recurrank.dashboard.playground.worker")


class Runner:
    """Simulations in processes."""

    def __init__(self) -> None:
        self._spare: Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._processes: set[Process] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = Slots(RUNS, f"playground: {RUNS} simulations run already; stop one, or wait", retry=5)
        self._ended = False

    def warm(self) -> None:
        """A page was opened: have a worker ready."""
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
        self._idle = loop.call_later(IDLE, self._let_go)
        if self._spare is None and not self._ended and (self._starting is None or self._starting.done()):
            self._starting = loop.create_task(self._prepare())

    async def _prepare(self) -> None:
        self._spare = await self._start()

    def _let_go(self) -> None:
        if self._spare is not None:
            _kill(self._spare)
            self._spare = None

    async def _start(self) -> Process:
        self._loop = asyncio.get_running_loop()
        pipes: dict[str, Any] = {"stdin": PIPE, "stdout": PIPE, "stderr": DEVNULL, "limit": 16 << 20}
        process = await asyncio.create_subprocess_exec(*COMMAND, **pipes, env={**os.environ, **ONE_THREAD})
        self._processes.add(process)
        if self._ended:  # meanwhile
            _kill(process)
        return process

    async def _take(self) -> Process:
        """The spare worker, or a new one."""
        if self._starting is not None:
            await self._starting
        process, self._spare = self._spare, None
        return process if process is not None and process.returncode is None else await self._start()

    def run(self, setup: Setup) -> AsyncIterator[tuple[str, bytes]]:
        """The events of a simulation as they happen: their names, and JSON. Refused if all slots are taken."""
        return self._run(setup, self._slots.take())

    async def _run(self, setup: Setup, slot: Slot) -> AsyncIterator[tuple[str, bytes]]:
        process = None
        try:
            process = await self._take()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(setup) + b"\n")
            over = asyncio.get_running_loop().time() + SECONDS
            while line := await asyncio.wait_for(process.stdout.readline(), over - asyncio.get_running_loop().time()):
                name, _, document = line.rstrip(b"\n").partition(b"\t")
                yield name.decode(), document
            if await process.wait() != 0 and not self._ended:
                yield "problem", _problem("The simulation ended before it was done: out of memory, perhaps.")
        except TimeoutError:
            yield "problem", _problem(f"The simulation took more than {SECONDS:g} seconds; choose fewer rounds or items.")
        except (BrokenPipeError, ConnectionResetError):
            yield "problem", _problem("The simulation could not be started; try again.")
        finally:
            slot.release()
            if process is not None:
                _kill(process)
                self._processes.discard(process)
            if not self._ended:
                self.warm()  # for the next one

    def stop(self) -> None:
        """End all workers; may be called from any thread, as long as the event loop runs one more turn."""
        self._ended = True
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._end)
            except RuntimeError:  # the loop is closed already
                for process in self._processes:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()

    def _end(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        for process in self._processes:  # one that is being started ends once it runs
            _kill(process)


def _problem(detail: str) -> bytes:
    return msgspec.json.encode({"detail": detail})


def _kill(process: Process) -> None:
    """Kill a process, close its pipes and wait for its end, synchronously: the event loop may not run again."""
    transport: Any = process._transport  # type: ignore[attr-defined]
    known = transport.get_extra_info("subprocess")
    transport.close()  # kills it
    if hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # the event loop's watcher reaps it
        if known is not None and known.returncode is None:
            known.returncode = -signal.SIGKILL

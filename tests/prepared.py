"""Processes of Python that import nothing: a process that has loaded everything forks them.

A start of ``python -m recurrank`` is 0.6 to 1.5 seconds of imports, and tests start hundreds. Here one process per test process
loads once what is asked for; a process that it forks has its own arguments, environment, folder, standard streams and, if told
so, session, and runs what the command says as ``__main__``. A command of another form, or with other settings of Python or
numba, is started as usual.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORKER = ("recurrank.experiments.runner", "recurrank.cli.compare", "numba.core.registry")
REPORTS = (
    *WORKER,
    "recurrank.experiments.report",
    "matplotlib.pyplot",
    "pandas",
    "joblib",
    "pyarrow.parquet",
    "scipy.stats",
)
SERVICE = ("recurrank.serving.run", "recurrank.dashboard.app", "recurrank.client", "psycopg", "sqlite3")
LOADED = {
    **dict.fromkeys(("serve", "doctor", "log", "backup", "restore", "erase"), SERVICE),
    **dict.fromkeys(("compare", "field", "paper"), REPORTS),
}
"""What commands of ``recurrank`` import when they run, beside the module that has their name."""

SETTINGS = ("PYTHON", "NUMBA_", "OPENBLAS", "OMP_")
"""Beginnings of variables that have an effect while Python starts or a library is imported."""


class Process:
    """A process that is not a child of this one, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(self, pid: int, status: socket.socket, stdin: Any, stdout: Any, stderr: Any) -> None:
        self.pid, self._status = pid, status
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                said = self._status.recv(100)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0) from None
            assert said, "the process that forks others has ended"
            self._status.close()
            self.returncode = int(said)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """All that it writes, until it has ended."""
        said: dict[str, Any] = {"stdout": None, "stderr": None}

        def read(name: str, pipe: Any) -> None:
            with pipe:
                said[name] = pipe.read()

        pipes = [(name, pipe) for name in said if (pipe := getattr(self, name)) is not None]
        threads = [threading.Thread(target=read, args=both, daemon=True) for both in pipes]
        for thread in threads:
            thread.start()
        deadline = None if timeout is None else time.monotonic() + timeout
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        self.wait(None if deadline is None else max(0.01, deadline - time.monotonic()))
        return said["stdout"], said["stderr"]


def start(
    command: list[Any],
    *,
    stdin: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    text: bool = False,
    session: bool = False,
    load: Sequence[str] = (),
    **where: Any,
) -> Process | subprocess.Popen[Any]:
    """``subprocess.Popen``; ``cwd`` and ``env`` are as there. ``load`` is what a script needs (``-c``)."""
    command = [os.fspath(word) for word in command]
    asked = _understood(command, {**os.environ} if where.get("env") is None else where["env"])
    if asked is None or where.keys() - {"cwd", "env"}:
        pipes = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        return subprocess.Popen(command, text=text, start_new_session=session, **pipes, **where)
    asked["load"] += load
    asked |= {"cwd": os.fspath(where.get("cwd") or os.getcwd()), "session": session}
    near, far = socket.socketpair()
    with far, contextlib.ExitStack() as opened:
        streams, pipes = [], []
        for number, stream in enumerate((stdin, stdout, stderr)):
            pipe = None
            if stream == subprocess.PIPE:
                ends = os.pipe()
                stream, kept = ends if number == 0 else ends[::-1]
                opened.callback(os.close, stream)
                pipe = open(kept, ("w" if number == 0 else "r") + "b" * (not text))  # noqa: SIM115  (the caller closes it)
            pipes.append(pipe)
            streams.append(number if stream is None else stream if isinstance(stream, int) else stream.fileno())
        socket.send_fds(_forking(), [json.dumps(asked).encode()], [far.fileno(), *streams])
    near.settimeout(120)
    return Process(int(near.recv(8)), near, *pipes)


def run(command: list[str], *, capture_output: bool = False, timeout: float = 300, check: bool = False, **options: Any):
    """``subprocess.run``."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} if capture_output else {}
    process = start(command, **pipes, **options)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _understood(command: list[str], environment: dict[str, str]) -> dict[str, Any] | None:
    """What the forking process needs to know of a command, if it can run it."""

    def settings(variables):
        return {name: value for name, value in variables.items() if name.startswith(SETTINGS) and name != "PYTHONUNBUFFERED"}

    if command[0] != sys.executable or settings(environment) != settings(_environment):
        return None
    quiet = command[1:3] == ["-W", "ignore"]
    kind, what, *arguments = command[3 if quiet else 1 :]
    if kind not in ("-c", "-m"):
        return None
    load = []
    if what.startswith("distributed."):
        load = [what, *WORKER]
    if what == "recurrank":
        load = ["recurrank.cli", *(f"recurrank.cli.{word}" for word in arguments[:1]), *LOADED.get(arguments[0], ())]
    return {"quiet": quiet, "kind": kind, "what": what, "arguments": arguments, "load": load, "environment": environment}


_environment = dict(os.environ)
_control: list[Any] = []


def _forking() -> socket.socket:
    """The way to the forking process, which the first call starts."""
    if not _control:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            command = [sys.executable, os.fspath(Path(__file__)), str(far.fileno())]
            process = subprocess.Popen(command, pass_fds=[far.fileno()], env=_environment, stdin=subprocess.DEVNULL)
        _control.extend((near, process))
    return _control[0]


def end() -> None:
    """Tests are over."""
    if _control:
        _control[0].close()
        _control[1].wait(timeout=30)
        _control.clear()


def _fork(control: socket.socket) -> dict[str, Any]:
    """Fork processes until nobody asks any more; returns in those only."""
    import importlib
    import selectors

    sys.path.pop(0)  # this folder
    running: dict[int, socket.socket] = {}
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    with selectors.DefaultSelector() as selector:
        for end in (control, woken):
            selector.register(end, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(1000)
                with contextlib.suppress(ChildProcessError):
                    while (found := os.waitpid(-1, os.WNOHANG))[0]:
                        with running.pop(found[0]) as status, contextlib.suppress(OSError):
                            status.send(str(os.waitstatus_to_exitcode(found[1])).encode())
            if control in ready:
                message, fds, _, _ = socket.recv_fds(control, 1 << 20, 4)
                if not message:
                    os._exit(0)
                asked = json.loads(message)
                new = [name for name in asked["load"] if name not in sys.modules]
                for name in new:
                    with contextlib.suppress(ImportError):  # the command itself says what is wrong
                        importlib.import_module(name)
                if new and "numba.core.registry" in sys.modules:  # what numba else loads when it compiles first
                    sys.modules["numba.core.registry"].cpu_target.typing_context.refresh()
                    sys.modules["numba.core.registry"].cpu_target.target_context.refresh()
                if new:
                    gc.freeze()
                pid = os.fork()
                if pid == 0:
                    break
                running[pid] = socket.socket(fileno=fds[0])
                running[pid].send(f"{pid:8}".encode())
                for fd in fds[1:]:
                    os.close(fd)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for end in (control, woken, wake, *running.values()):
        end.close()
    os.close(fds[0])
    for number, fd in enumerate(fds[1:]):
        os.dup2(fd, number)
        os.close(fd)
    return asked


def _become(asked: dict[str, Any]) -> None:
    """Run the command in this process."""
    import runpy
    import types
    import warnings

    if asked["session"]:
        os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked["environment"].get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)
    if asked["quiet"]:
        sys.warnoptions.append("ignore")
        warnings.simplefilter("ignore")
    if asked["kind"] == "-m":
        sys.path.insert(0, asked["cwd"])
        sys.argv = ["-m", *asked["arguments"]]
        runpy.run_module(asked["what"], run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, "")
    sys.argv = ["-c", *asked["arguments"]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(asked["what"], main.__dict__)


if __name__ == "__main__":
    _become(_fork(socket.socket(fileno=int(sys.argv[1]))))

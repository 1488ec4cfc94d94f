"""A forked process is like one that was started: streams, exit code, signals, arguments, folder and environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests import prepared

ABOUT = "import os, sys; print(sys.argv, os.getcwd(), os.environ['X'], __name__); print('no', file=sys.stderr); sys.exit(3)"
READS = "import sys; print(sys.stdin.readline(), end='', flush=True); sys.stdin.read()"


def test_what_a_started_process_says_and_how_it_ends(tmp_path):
    command, where = [sys.executable, "-c", ABOUT, "a", "b"], {"cwd": tmp_path, "env": {**os.environ, "X": "1"}}
    started = subprocess.run(command, capture_output=True, text=True, **where)
    forked = prepared.run(command, capture_output=True, text=True, **where)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert forked.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signals_end_it(number):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with prepared.start([sys.executable, "-c", READS], text=True, session=True, **pipes) as process:
        assert isinstance(process, prepared.Process)
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert process.stdout.readline() == "hello\n"
        assert os.getsid(process.pid) == process.pid
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
        process.kill()  # it has ended


def test_other_settings_of_python_start_a_process():
    process = prepared.start([sys.executable, "-c", "pass"], env={**os.environ, "PYTHONHASHSEED": "1"})
    assert isinstance(process, subprocess.Popen)
    assert process.wait(timeout=60) == 0

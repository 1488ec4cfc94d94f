"""The process that decodes uploads: ``python -m recurrank.serving.http.decoder_worker``, started by ``decoder.py``."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from recurrank.serving.http.decoder import Job, Result, Rows
from recurrank.serving.http.problems import explain
from recurrank.serving.json_log import log_as_json

BESIDE = 192 << 20
"""Bytes of memory in addition to twice the largest catalogue and the body: buffers, one batch of a file."""
NICE = 5


def main() -> None:
    """Do one job after the other until standard input ends."""
    os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends this process
    gc.disable()  # millions of small objects, none of which refers to itself
    log_as_json()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        job = msgspec.json.decode(line, type=Job)
        result, features, ids = _done(job, source)
        sink.write(msgspec.json.encode(result) + b"\n")
        if features is not None:
            sink.write(memoryview(features).cast("B"))
            sink.write(ids)
        sink.flush()
        del features, ids


def _done(job: Job, source: Any) -> tuple[Result, Any, bytes]:
    _limit_memory(2 * job.bounds.bytes + job.size + BESIDE)
    try:
        body = source.read(job.size)
        module, _, name = job.function.partition(":")
        found = getattr(importlib.import_module(module), name)(job.kind, body, job.query, job.bounds)
        if not isinstance(found, tuple):
            return Result(document=found), None, b""
        if isinstance(found, Rows):
            return _with_rows(Result(document=found.document), found.features, found.ids)
        config, catalogue = found
        return _with_rows(Result(config=config), catalogue.features, catalogue.ids)
    except MemoryError:
        detail = f"body: decoding it takes more memory than {job.bounds.bytes >> 20:,} MB of items do"
        return Result(413, detail, last=True), None, b""
    except Exception as error:
        problem = explain(error, "decoder")
        return Result(problem.status, problem.detail), None, b""


def _with_rows(result: Result, features: Any, ids: Sequence[str] | None) -> tuple[Result, Any, bytes]:
    if not len(features):
        return result, None, b""
    rows, names = np.ascontiguousarray(features), b"" if ids is None else msgspec.msgpack.encode(list(ids))
    result.shape, result.dtype, result.ids = rows.shape, rows.dtype.str, len(names)
    return result, rows, names


def _limit_memory(more: int) -> None:
    """Limit the memory of this process to ``more`` bytes above its current use."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # not Linux: only the checks of the decoders limit memory
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = now + more if most == resource.RLIM_INFINITY else min(now + more, most)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


if __name__ == "__main__":
    main()

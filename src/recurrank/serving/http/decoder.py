"""Decode uploaded catalogues where they can do no harm: in a process with limited memory and time.

A few hundred kilobytes of Parquet can decode to gigabytes, and parsing megabytes of text holds Python's lock. So a worker
process decodes compressed or large bodies, one at a time; it is killed if it takes too long, and a new one is started for
the next body. Small bodies that cannot expand are decoded in a thread of the server, without starting a process.

The worker (``decoder_worker.py``) reads jobs from its standard input and writes results to its output.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.upload import NPY, PARQUET, Bounds, read_ranker
from recurrank.serving.spec import RankerSpec

SMALL = 256 << 10
"""Most bytes of a JSON or CSV body that is decoded in the server."""
COMMAND = (sys.executable, "-m", "recurrank.serving.http.decoder_worker")

SETTINGS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Environment of the worker: threads and pyarrow's own pools would reserve address space, which the memory limit counts."""

Reader = Callable[[str, bytes, dict[str, str], Bounds], Any]
"""Decodes a body: its media type, its bytes, the request's query, and bounds."""


class Job(msgspec.Struct):
    """A job for the worker; the body follows."""

    function: str  # "module:function", called with kind, body, query and bounds
    kind: str
    query: dict[str, str]
    bounds: Bounds
    size: int


class Result(msgspec.Struct):
    """The result of a job; the features and then the ids as msgpack follow, if there are any."""

    status: int = 200
    detail: str = ""
    config: RankerSpec | None = None
    document: Any = None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    ids: int = 0
    last: bool = False  # the worker must be replaced


class Rows(NamedTuple):
    """A decoded body: a small JSON document, and rows of numbers with their ids."""

    document: Any
    features: Any  # (n, d)
    ids: list[str]


class Decoder:
    """Decodes uploads within bounds.

    Args:
        bounds: limits of a decoded catalogue.
        seconds: time limit for decoding one body.

    """

    def __init__(self, bounds: Bounds, seconds: float) -> None:
        self._bounds, self._seconds = bounds, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Semaphore(1)
        self._stopped = False

    async def ranker(self, kind: str, body: bytes, query: dict[str, str]) -> tuple[RankerSpec, Catalogue]:
        """Decode a new ranker (:func:`~recurrank.serving.http.upload.read_ranker`)."""
        async with self._turn:
            if _harmless(kind, body):
                return await asyncio.to_thread(read_ranker, kind, body, query, self._bounds)
            return await asyncio.to_thread(self._ranker, kind, body, query)

    async def document(self, kind: str, body: bytes, function: Reader) -> Any:
        """Decode a file to a JSON document, by a function at the top level of a module."""
        async with self._turn:
            if _harmless(kind, body):
                return await asyncio.to_thread(function, kind, body, {}, self._bounds)
            return (await asyncio.to_thread(self._run, function, kind, body, {}))[0].document

    async def rows(self, kind: str, body: bytes, function: Callable[..., Rows]) -> Rows:
        """Decode a body to rows, by a function at the top level of a module."""
        async with self._turn:
            if _harmless(kind, body):
                return await asyncio.to_thread(function, kind, body, {}, self._bounds)
            result, features, ids = await asyncio.to_thread(self._run, function, kind, body, {})
            return Rows(result.document, features, ids or [])

    def stop(self) -> None:
        """End the worker."""
        self._stopped = True
        if self._process is not None:
            _end(self._process)

    def _ranker(self, kind: str, body: bytes, query: dict[str, str]) -> tuple[RankerSpec, Catalogue]:
        result, features, ids = self._run(read_ranker, kind, body, query)
        assert result.config is not None
        return result.config, Catalogue(features, ids)

    def _run(self, function: Reader, kind: str, body: bytes, query: dict[str, str]) -> tuple[Result, Any, list[str] | None]:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        late = threading.Timer(self._seconds, process.kill)
        late.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            job = Job(f"{function.__module__}:{function.__name__}", kind, query, self._bounds, len(body))
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.write(body)
            process.stdin.flush()
            result, features, ids = _received(process.stdout)
        except (OSError, EOFError, msgspec.MsgspecError) as error:  # the worker was killed: by the timer, or by its input
            self._start()
            raise Refused(413, f"body: it cannot be decoded within {self._seconds:g} seconds and the memory for it") from error
        finally:
            late.cancel()
        if result.last:
            self._start()
        if result.status != 200:
            raise Refused(result.status, result.detail)
        return result, features, ids

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a new worker, and end the old one; it is ready when the next body comes."""
        if self._process is not None:
            _end(self._process)
        if self._stopped:
            raise Refused(503, "the server is about to stop; try again elsewhere or later")
        environment = {**os.environ, **SETTINGS}
        self._process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        return self._process


def _harmless(kind: str, body: bytes) -> bool:
    """Whether decoding takes neither long nor much more memory than the body."""
    return kind == NPY or (kind != PARQUET and len(body) <= SMALL)


def _received(pipe: IO[bytes]) -> tuple[Result, Any, list[str] | None]:
    result = msgspec.json.decode(pipe.readline(), type=Result)
    if not result.shape:
        return result, None, None
    features = np.empty(result.shape, result.dtype)
    _fill(pipe, memoryview(features.reshape(-1).view(np.uint8)))  # type: ignore[arg-type]
    names = bytearray(result.ids)
    _fill(pipe, memoryview(names))
    return result, features, msgspec.msgpack.decode(names, type=list[str]) if names else None


def _fill(pipe: IO[bytes], view: memoryview) -> None:
    while view:
        got = pipe.readinto(view)  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        view = view[got:]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # unread input is lost
                pipe.close()

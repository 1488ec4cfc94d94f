"""A connection to a Dask cluster whose workers have the same code."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recurrank._sources import sources_digest


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at an address; ValueError if it does not answer, or workers are missing or have other code."""
    try:
        import distributed
    except ImportError as error:
        raise ValueError("engine: Dask is not installed; install recurrank[dask]") from error
    dask: Any = distributed  # it has no types
    _knock(address)
    try:
        client = dask.Client(address, timeout="5s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ValueError(f"engine: no Dask scheduler answers at {address} ({error})") from error
    with client:
        digests: dict[str, bytes] = client.run(sources_digest)
        if not digests:
            raise ValueError(f"engine: the scheduler at {address} has no workers; start some with: dask worker {address}")
        for worker, other in digests.items():
            if other != sources_digest():
                raise ValueError(f"engine: worker {worker} has another version of recurrank; install this one there")
        yield client


def _knock(address: str) -> None:
    """Connect once before Dask does: a Dask client without a scheduler reports the error again when it is collected."""
    match = re.fullmatch(r"(?:(?:tcp|tls|ws|wss)://)?(\[[0-9a-fA-F:]+\]|[^:/]+):(\d{1,5})", address)
    if match is None:
        raise ValueError(f"engine: {address!r} is not the address of a scheduler; give for example dask:tcp://127.0.0.1:8786")
    try:
        socket.create_connection((match[1].strip("[]"), int(match[2])), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"engine: no Dask scheduler answers at {address} ({error})") from error


def completed(client: Any, futures: list[Any]) -> Iterator[Any]:
    """The futures, as they are done."""
    import distributed

    dask: Any = distributed
    yield from dask.as_completed(futures, loop=client.loop)


def address_of(engine: str) -> str | None:
    """The scheduler's address in ``dask:ADDRESS``, None for ``local``."""
    kind, _, address = engine.partition(":")
    if kind == "local" and not address:
        return None
    if kind == "dask" and address:
        return address
    raise ValueError(f"engine: {engine!r} is unknown; give local, or dask:ADDRESS such as dask:tcp://127.0.0.1:8786")

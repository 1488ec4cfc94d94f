"""Saving and loading rankers: bytes with a version and a digest, never pickle.

    magic (10 bytes)  version (2)  length of the header (8)  header (JSON)  arrays, end to end  SHA-256 of all before (32)

The header names the algorithm, what it was made with, the catalogue's fingerprint, the state of the random stream and
the name, type and shape of every array, in order.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank.catalogue import Catalogue, as_catalogue
from recurrank.catalogue.catalogue import fingerprint_of
from recurrank.catalogue.rows import COPIED
from recurrank.rankers.ranker import Ranker
from recurrank.rankers.registry import kinds
from recurrank.rankers.stock import Stock

MAGIC = b"recurrank\n"
VERSION = 3
_HEAD = len(MAGIC) + 2 + 8
_DIGEST = 32


def save(ranker: Ranker) -> bytes:
    """All of a ranker but its catalogue; ValueError if the catalogue's features have been changed."""
    ranker.catalogue.check()
    values, arrays = ranker.pack()
    layout, body = [], []
    for name, array in arrays.items():
        layout.append([name, array.dtype.str, list(array.shape)])
        body.append(np.ascontiguousarray(array).tobytes())
    header = json.dumps(
        {
            "algorithm": ranker.name,
            "fingerprint": ranker.catalogue.fingerprint,
            "positions": ranker.positions,
            "rounds": ranker.rounds,
            "options": ranker.options(),
            "identity": ranker.identity,
            "served": ranker.served,
            "random": ranker.rng.bit_generator.state,
            "values": values,
            "arrays": layout,
        },
        sort_keys=True,
    ).encode()
    blob = b"".join([MAGIC, VERSION.to_bytes(2, "big"), len(header).to_bytes(8, "big"), header, *body])
    return blob + hashlib.sha256(blob).digest()


def load(blob: bytes, features: ArrayLike | Catalogue | None = None) -> Ranker:
    """The ranker that was saved, on the same catalogue (None for one without).

    Raises ValueError for bytes that are not a saved ranker, truncated, altered or of a newer version, and for another
    catalogue than the one that the ranker learned on.
    """
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise ValueError(f"saved ranker: {type(blob).__name__} is not bytes; give what save() returned")
    header, body = _open(bytes(blob))
    algorithms = kinds()
    if header["algorithm"] not in algorithms:
        name = header["algorithm"]
        raise ValueError(f"saved ranker: {name!r} is not an algorithm known here; load its plugin, or update recurrank")
    catalogue = None if features is None else as_catalogue(features)
    if catalogue is None and header["fingerprint"] != Stock.empty(header["options"].get("dim") or 1).fingerprint:
        raise ValueError("features: missing; this ranker has a catalogue, and is loaded with it")
    if catalogue is not None and catalogue.fingerprint != header["fingerprint"]:
        advice = _advice(catalogue, header["fingerprint"])
        raise ValueError(f"features: not the catalogue that the saved ranker learned on; {advice}")
    ranker = algorithms[header["algorithm"]].restore(
        catalogue,  # type: ignore[arg-type]  # a ranker with an option dim needs none
        positions=header["positions"],
        rounds=header["rounds"],
        seed=0,
        **header["options"],
    )
    ranker.identity, ranker.served = header["identity"], header["served"]
    ranker.rng.bit_generator.state = header["random"]
    try:
        ranker.unpack(header["values"], _arrays(header["arrays"], body))
    except KeyError as error:
        raise ValueError(
            f"saved ranker: it has no {error.args[0]!r}; states of {ranker.name!r} have changed since; learn anew"
        ) from error
    return ranker


def _advice(catalogue: Catalogue, wanted: str) -> str:
    """What to load it with instead, if that can be determined."""
    features, ids = catalogue.features, catalogue.ids
    other = np.dtype(np.float64 if features.dtype == np.float32 else np.float32)
    if features.nbytes <= COPIED and len(features):
        with np.errstate(over="ignore"):
            if fingerprint_of(features.astype(other), ids) == wanted:
                return f"its features were {other}, and these are {features.dtype}"
        if ids is not None and fingerprint_of(features, None) == wanted:
            return "its items had no ids"
    size, named = " x ".join(f"{count:,}" for count in features.shape), "without ids" if ids is None else "with ids"
    return f"these are {size} features as {features.dtype}, {named}; load it with the same numbers, type of number and ids"


def _open(blob: bytes) -> tuple[dict[str, Any], memoryview]:
    if not blob.startswith(MAGIC):
        raise ValueError("saved ranker: these bytes are not a saved ranker; give what save() returned")
    if len(blob) < _HEAD + _DIGEST:
        raise ValueError("saved ranker: truncated; give all that save() returned")
    version = int.from_bytes(blob[len(MAGIC) : len(MAGIC) + 2], "big")
    if version > VERSION:
        raise ValueError(f"saved ranker: version {version} is newer than {VERSION}, the newest known here; update recurrank")
    if version < VERSION:
        raise ValueError(f"saved ranker: version {version} is older than {VERSION}, and states have changed since; learn anew")
    if hashlib.sha256(memoryview(blob)[:-_DIGEST]).digest() != blob[-_DIGEST:]:
        raise ValueError("saved ranker: truncated or altered (its digest does not match); restore it from a copy")
    length = int.from_bytes(blob[_HEAD - 8 : _HEAD], "big")
    header: dict[str, Any] = json.loads(blob[_HEAD : _HEAD + length])
    return header, memoryview(blob)[_HEAD + length : -_DIGEST]


def _arrays(layout: list[list[Any]], body: memoryview) -> dict[str, np.ndarray[Any, Any]]:
    arrays, start = {}, 0
    for name, dtype, shape in layout:
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, dtype=dtype, count=count, offset=start).reshape(shape).copy()
        start += arrays[name].nbytes
    return arrays

"""``recurrank log import``: a log of any format as one Parquet file with the columns of ``pages.py``, some pages at a time.

Finished parts are kept in a folder beside the file, with the state of the import. A stopped import (Ctrl-C, a crash) resumes
from there; the file appears when it is complete. An import that fails because of a bad page leaves nothing behind.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recurrank.logs.formats import joined
from recurrank.logs.pages import Bad, Batch, arrow, canonical, schema
from recurrank.logs.reading import batches, kind_of, sound

SHOWN = 5
"""Bad pages that are reported one by one."""


class Imported(NamedTuple):
    """The result of an import.

    Attributes:
        format: the format of the source.
        pages: the number of pages written.
        bad: the number of pages and lines skipped.
        complaints: messages on the first of these.

    """

    format: str
    pages: int
    bad: int
    complaints: list[str]


def import_log(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    kind: str | None = None,
    skip_bad: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Check a log and write it as Parquet.

    Args:
        sources: one file; for UBI logs also several, with queries and events.
        out: the Parquet file to write.
        kind: lists, long, ubi, metarank or events; by default detected.
        skip_bad: skip bad pages and lines, and count them, instead of raising a ValueError that names the first.
        progress: called with the number of pages so far.

    """
    paths, target = [Path(source) for source in sources], Path(out)
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path}: no such file; give a log of pages and clicks")
    kind = kind or kind_of(paths[0])
    if kind == "counts":
        raise ValueError(f"{paths[0]}: counts by position cannot be turned into pages; recurrank fit reads them as they are")
    folder = target.with_name(target.name + ".partial")
    state = _resumed(folder, _fingerprint(paths, kind, skip_bad))
    try:
        _write_parts(paths, kind, skip_bad, folder, state, progress)
        if state["parts"] == 0:
            raise ValueError(f"{paths[0]}: no pages in it")
        count = _join(folder, target, state["parts"])
    except ValueError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder)
    return Imported(kind, count, state["bad"], state["complaints"])


def _fingerprint(paths: list[Path], kind: str, skip_bad: bool) -> dict[str, Any]:
    files = [[str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    return {"files": files, "kind": kind, "skip_bad": skip_bad}


def _resumed(folder: Path, source: dict[str, Any]) -> dict[str, Any]:
    """The state of an earlier import of the same files, or a new one."""
    fresh = {"source": source, "batches": 0, "parts": 0, "pages": 0, "bad": 0, "complaints": []}
    try:
        state: dict[str, Any] = json.loads((folder / "state.json").read_bytes())
        if state["source"] == source:
            return state
    except (OSError, ValueError, KeyError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return fresh


def _write_parts(
    paths: list[Path], kind: str, skip_bad: bool, folder: Path, state: dict[str, Any], progress: Callable[[int], None] | None
) -> None:
    """Write one part per batch, and the state after each, so that a part without it is written again."""
    pa = arrow()
    folder.mkdir(parents=True, exist_ok=True)
    done = state["batches"]
    lines: list[Bad] = []

    def bad_line(error: Bad) -> None:
        if not skip_bad:
            raise ValueError(str(error))
        lines.append(error)

    for number, batch in enumerate(_batches(paths, kind, bad_line)):
        if number < done:
            lines.clear()
            continue
        pages, bad = sound(paths[0], batch, skip_bad)
        bad = [*lines, *bad]
        lines.clear()
        if len(pages):
            pa.parquet.write_table(pa.Table.from_batches([canonical(pages)]), folder / f"{state['parts']:06d}.parquet")
            state["parts"] += 1
        _account(state, bad, len(pages))
        state["batches"] = number + 1
        partial = folder / "state.json.new"
        partial.write_text(json.dumps(state), encoding="utf-8")
        partial.replace(folder / "state.json")
        if progress is not None:
            progress(state["pages"])
    _account(state, lines, 0)


def _account(state: dict[str, Any], bad: list[Bad], pages: int) -> None:
    state["pages"] += pages
    state["bad"] += len(bad)
    state["complaints"] += [str(error) for error in bad[: SHOWN - len(state["complaints"])]]


def _batches(paths: list[Path], kind: str, bad: Callable[[Bad], None]) -> Iterator[Batch]:
    if kind in ("ubi", "metarank"):
        return joined.batches(paths, kind, bad)
    if len(paths) > 1:
        raise ValueError(f"{paths[1]}: a second file; only UBI and Metarank logs come in several")
    return batches(paths[0], kind, bad)


def _join(folder: Path, target: Path, parts: int) -> int:
    """Join all parts into one file, which appears when it is complete."""
    pa = arrow()
    whole, count = folder / "whole.parquet", 0
    with pa.parquet.ParquetWriter(whole, schema()) as writer:
        for number in range(parts):
            table = pa.parquet.read_table(folder / f"{number:06d}.parquet", schema=schema())
            writer.write_table(table)
            count += len(table)
    whole.replace(target)
    return count

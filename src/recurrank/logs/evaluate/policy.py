"""Policies that can be evaluated on a log.

| text | policy |
|---|---|
| ``shown`` | the pages as shown |
| ``order:a,b,c`` | these items in this order |
| ``order:FILE`` | the items in a text file, one per line |
| ``scores:FILE.csv`` | the items of a page's query by score; columns ``item``, ``score`` and perhaps ``query`` |
| ``ranker:NAME[:option=value]`` | a ranker that learns while it ranks |

All but the last are a ranking per query: the policy's order of the items that the log has for the query.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recurrank.logs.sessions import EMPTY, Codes, Sessions, pairs_of

UNRANKED = 1 << 30
"""The rank of an item that an order does not have."""


class Policy(NamedTuple):
    """A policy on a log.

    Attributes:
        name: the text that asked for it.
        target: by query, the items that it shows, -1 after the last; None for the pages as shown, and for a ranker.
        ranker: the label of a ranker.

    """

    name: str
    target: Codes | None = None
    ranker: str | None = None


def policy_of(policy: str | Sequence[str], log: Sessions) -> Policy:
    """A policy from its text, or from item ids in order; ValueError if it does not fit the log."""
    if not isinstance(policy, str):
        return Policy("order", _target(log, _ranks(list(policy), log, "policy")))
    kind, _, rest = policy.partition(":")
    match kind:
        case "shown":
            return Policy("shown")
        case "order":
            path = Path(rest)
            names = path.read_text(encoding="utf-8").split("\n") if path.is_file() else rest.split(",")
            return Policy(policy, _target(log, _ranks([name.strip() for name in names if name.strip()], log, policy)))
        case "scores":
            return Policy(policy, _by_scores(Path(rest), log))
        case "ranker" if rest:
            return Policy(policy, ranker=rest)
    raise ValueError(f"policy: {policy!r} is unknown; give shown, order:a,b,c, order:FILE, scores:FILE.csv or ranker:NAME")


def _ranks(names: list[str], log: Sessions, policy: str) -> Codes:
    """By item, its rank in an order."""
    if not names:
        raise ValueError(f"policy: {policy!r} names no items")
    numbers = {name: number for number, name in enumerate(log.item_ids)}
    ranks = np.full(len(log.item_ids), UNRANKED, np.int32)
    for rank, name in enumerate(names):
        if name not in numbers:
            raise ValueError(f"policy: item {name!r} is not in the log")
        if ranks[numbers[name]] != UNRANKED:
            raise ValueError(f"policy: item {name!r} stands twice in the order")
        ranks[numbers[name]] = rank
    return ranks


def _target(log: Sessions, ranks: Codes, by_pair: Codes | None = None) -> Codes:
    """By query, its items in the order of their ranks; ``by_pair`` has the ranks by query and item."""
    pairs, _ = pairs_of(log)
    rank = ranks[pairs.item] if by_pair is None else by_pair
    ranked = rank < UNRANKED
    order = np.lexsort((rank[ranked], pairs.query[ranked]))
    query, item = pairs.query[ranked][order], pairs.item[ranked][order]
    begins = np.searchsorted(query, np.arange(len(log.query_ids)))
    position = np.arange(len(query)) - begins[query]
    target = np.full((len(log.query_ids), log.positions), EMPTY, np.int32)
    kept = position < log.positions
    target[query[kept], position[kept]] = item[kept]
    return target


def _by_scores(path: Path, log: Sessions) -> Codes:
    if not path.is_file():
        raise ValueError(f"policy: {path}: no such file; give a CSV file with the columns item and score")
    scores: dict[tuple[str, str], float] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if not {"item", "score"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{path}: row 1: columns {', '.join(rows.fieldnames or ())}; give item and score")
        for row in rows:
            try:
                value = float(row["score"])
            except (TypeError, ValueError):
                value = float("nan")
            if not np.isfinite(value):
                raise ValueError(f"{path}: row {rows.line_num}, column 'score': {row['score']!r} is not a number")
            scores[row.get("query") or "", row["item"]] = value
    pairs, _ = pairs_of(log)
    values = np.array(
        [
            scores.get((log.query_ids[q], log.item_ids[i]), scores.get(("", log.item_ids[i]), -np.inf))
            for q, i in zip(pairs.query, pairs.item, strict=True)
        ]
    )
    if not np.isfinite(values).any():
        raise ValueError(f"{path}: none of its items is in the log")
    order = np.lexsort((-values, pairs.query))
    ranks = np.full(len(values), UNRANKED, np.int32)
    ranks[order] = np.arange(len(values))
    ranks[~np.isfinite(values)] = UNRANKED
    return _target(log, ranks, by_pair=ranks)

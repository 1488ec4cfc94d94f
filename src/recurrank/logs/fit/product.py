"""Models whose click is a product of two coins, attraction and examination: position-based and user browsing.

    P(click | item i, cell x) = a_i e_x

For the position-based model the cell is the position k; for the user browsing model it is k and the position of the last
click. The log enters as counts only: how often item i was shown and clicked in cell x. With n impressions and c clicks EM's
expected successes are

    attraction:   c + (n - c) a (1 - e) / (1 - a e)         examination:   c + (n - c) e (1 - a) / (1 - a e)

Examination is by query, shrunk towards the common one of all queries as far as the log supports it (``family.py``).
Craswell, Zoeter, Taylor, Ramsey 2008; Dupret, Piwowarski 2008; EM as in Chuklin, Markov, de Rijke 2015.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recurrank._arrays import Floats, Ints
from recurrank._compiled import apart
from recurrank.logs.fit.climb import Values
from recurrank.logs.fit.family import Expected, Family, by_position
from recurrank.logs.sessions import Codes, Marks


class Product:
    """Counts of a log for one of these models.

    Args:
        pair: the item of each row of counts.
        cell: its cell, numbered within its query.
        query: its query.
        shown: impressions.
        clicked: clicks.
        parents: the query of each pair.
        cells: the number of cells of a query.
        queries: the number of queries; one if examination is the same for all.

    """

    def __init__(
        self, pair: Codes, cell: Codes, query: Codes, shown: Floats, clicked: Floats, parents: Codes, cells: int, queries: int
    ) -> None:
        self.pair, self.shown, self.clicked = pair, shown, clicked
        self.cell = (query.astype(np.int64) * cells + cell).astype(np.int32) if queries > 1 else cell
        self.observations = float(shown.sum())
        self.cells, self.queries = cells, queries
        rate = float(clicked.sum() + 0.5) / float(shown.sum() + 1)
        by_cell = np.bincount(cell, clicked, cells) / np.maximum(np.bincount(cell, shown, cells), 1)
        curve = np.clip(by_cell / max(by_cell.max(), 1e-9), 0.05, 0.95)
        mean = np.full(queries, np.clip(2 * rate, 0.02, 0.6))
        self.families = [
            Family("attraction", parents.astype(np.int64), mean),
            by_position("examination", curve, queries),
        ]

    def starts(self) -> Sequence[Values]:
        """Starts with examination as the click rate by cell, and with a flat one: there may be a maximum near each."""
        attraction, curve = (family.begin() for family in self.families)
        return [[attraction, curve], [attraction.copy(), np.full(len(curve), 0.5)]]

    def expect(self, values: Values) -> tuple[float, list[Expected]]:
        a, e = values
        found = np.zeros((2, 2, max(len(a), len(e))))
        likelihood = _expect(self.pair, self.cell, self.shown, self.clicked, a, e, found)
        return likelihood, [
            Expected(found[0, 0, : len(a)], self._trials(self.pair, len(a)), found[0, 1, : len(a)]),
            Expected(found[1, 0, : len(e)], self._trials(self.cell, len(e)), found[1, 1, : len(e)]),
        ]

    def _trials(self, index: Codes, size: int) -> Floats:
        """Impressions by index, computed once since they do not change."""
        kept: dict[int, Floats] = self.__dict__.setdefault("_kept", {})
        if id(index) not in kept:
            kept[id(index)] = np.bincount(index, self.shown, size).astype(np.float64)
        return kept[id(index)]


@apart
def _expect(pair: Codes, cell: Codes, shown: Floats, clicked: Floats, a: Floats, e: Floats, found: Floats) -> float:
    likelihood, product = 0.0, 1.0
    for row in range(len(pair)):
        i, x = pair[row], cell[row]
        c, rest = clicked[row], shown[row] - clicked[row]
        both = a[i] * e[x]
        skip = 1 - both
        inverse = 1 / skip
        attracted = (a[i] - both) * inverse
        examined = (e[x] - both) * inverse
        if shown[row] == 1:  # a product of probabilities needs one logarithm
            product *= both if c > 0 else skip
            if product < 1e-250:
                likelihood += np.log(product)
                product = 1.0
        else:
            likelihood += c * np.log(both) + rest * np.log(skip)
        found[0, 0, i] += c + rest * attracted
        found[1, 0, x] += c + rest * examined
        found[0, 1, i] += c * (1 - a[i]) ** 2 + rest * (attracted - a[i]) ** 2
        found[1, 1, x] += c * (1 - e[x]) ** 2 + rest * (examined - e[x]) ** 2
    return float(likelihood + np.log(product))


def collapse(items: Codes, cells_of: Codes, clicks: Marks, pairs: int, cells: int) -> tuple[Codes, Codes, Floats, Floats]:
    """Counts by (pair, cell) of pages: pairs, cells, impressions and clicks.

    Args:
        items: pages in terms of pairs, negative where there is no item; shape (n, K).
        cells_of: the cell of each position, of the same shape or one row for all pages.
        clicks: of the same shape as ``items``.
        pairs: the number of pairs.
        cells: the number of cells.

    """
    ends = np.zeros(pairs + 1, np.int64)
    marked = _by_pair(items, cells_of, clicks, ends)
    rows = _rows(marked, ends, cells)
    return _counted(marked, ends, cells, rows)


@apart
def _by_pair(items: Codes, cells_of: Codes, clicks: Marks, ends: Ints) -> Codes:
    """Impressions by pair, as 2 cell + click (a counting sort); those of pair i are ``marked[ends[i]:ends[i + 1]]``."""
    for row in range(items.shape[0]):
        for k in range(items.shape[1]):
            if items[row, k] >= 0:
                ends[items[row, k] + 1] += 1
    for i in range(len(ends) - 1):
        ends[i + 1] += ends[i]
    begin = ends[:-1].copy()
    marked = np.empty(ends[-1], np.int32)
    for row in range(items.shape[0]):
        for k in range(items.shape[1]):
            i = items[row, k]
            if i >= 0:
                marked[begin[i]] = 2 * cells_of[row if len(cells_of) > 1 else 0, k] + clicks[row, k]
                begin[i] += 1
    return marked


@apart
def _rows(marked: Codes, ends: Ints, cells: int) -> int:
    """The number of distinct (pair, cell)."""
    seen = np.full(cells, -1, np.int64)
    count = 0
    for i in range(len(ends) - 1):
        for mark in marked[ends[i] : ends[i + 1]]:
            if seen[mark >> 1] != i:
                seen[mark >> 1] = i
                count += 1
    return count


@apart
def _counted(marked: Codes, ends: Ints, cells: int, rows: int) -> tuple[Codes, Codes, Floats, Floats]:
    pair, cell = np.empty(rows, np.int32), np.empty(rows, np.int32)
    shown, clicked = np.zeros(rows), np.zeros(rows)
    seen, row_of = np.full(cells, -1, np.int64), np.empty(cells, np.int64)
    count = 0
    for i in range(len(ends) - 1):
        for mark in marked[ends[i] : ends[i + 1]]:
            x = mark >> 1
            if seen[x] != i:
                seen[x], row_of[x] = i, count
                pair[count], cell[count] = i, x
                count += 1
            shown[row_of[x]] += 1
            clicked[row_of[x]] += mark & 1
    return pair, cell, shown, clicked


@apart
def last_clicks(clicks: Marks, lengths: Ints) -> Codes:
    """The cell of each position under user browsing: k K + j, j the last click's position or K - 1 for none yet."""
    rows, positions = clicks.shape
    cells = np.empty((rows, positions), np.int32)
    for row in range(rows):
        last = positions - 1
        for k in range(lengths[row]):
            cells[row, k] = k * positions + last
            if clicks[row, k]:
                last = k
    return cells

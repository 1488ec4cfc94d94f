"""Rows in memory with weights on them, balanced so that no row's leverage is much above the rank.

A *pool* has the rows that a pass over a catalogue left as worth considering, up to about ten thousand. Few of them are
*active* at a time, in the steps of ``steps.py``; the others are checked after each round of steps, and those that violate
the tolerance become active.
"""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank.catalogue.rows import Rows
from recurrank.catalogue.scan import Found
from recurrank.design import version_0_1_0
from recurrank.design.basis import LARGEST_COORDINATE, START_ROWS, Pivot, basis_of, enlarged, lens, pivots, rebase, root, start
from recurrank.design.basis import inverse as invert
from recurrank.design.steps import caratheodory, levers, solve

MOST_VIOLATORS = 1500
"""Most violators that become active at once: the time of a step is proportional to the active rows."""


class Pool:
    """Rows, and weights on them.

    Attributes:
        indices: of the rows in the catalogue.
        rows: the rows themselves, as float64.
        weights: one per row, summing to 1.
        basis: a basis of their span.
        inverse: Q^-1 in that basis.
        known: the largest leverage of any row of the pool.

    """

    def __init__(self, indices: Ints, rows: Floats, scales: Floats, precise: bool, pivot: Pivot) -> None:
        self.indices, self.rows, self.precise, self._pivot = indices, rows, precise, pivot
        few = start(len(rows))
        if not rows[few].any():  # most rows are zero: begin with the others
            few = np.flatnonzero(rows.any(axis=1))[:START_ROWS]
        self.basis, first = basis_of(rows[few], scales, precise, pivot)
        self.weights = np.zeros(len(rows))
        self.weights[few[first]] = 1 / len(first)
        self._active = few
        self.inverse = np.eye(self.basis.rank)
        self.known = np.inf

    @property
    def rank(self) -> int:
        """The rank of the rows."""
        return self.basis.rank

    def balance(self, tolerance: float) -> None:
        """Change the weights until no leverage is above ``rank * (1 + tolerance)``."""
        precision = tolerance / 4  # of the active rows' own problem, so that the next check may be the last
        while True:
            active = self._active
            lever = self._step(active, precision)
            found = Rows(self.rows).scan(lens(self.basis, self.inverse), MOST_VIOLATORS)
            if len(found.outside):
                self._widen(found.outside)
                continue
            self.known = float(found.lever[0])
            limit = self.rank * (1 + tolerance)
            if self.known <= limit:
                break
            worst = found.indices[found.lever > limit]
            if np.isin(worst, active).all():  # the active rows' own problem is the bottleneck
                precision /= 2
            kept = (self.weights[active] > 0) | can_support(lever, float(lever.max()), self.rank)
            self._active = np.union1d(active[kept], worst)
        self._active = np.flatnonzero(self.weights)

    def _step(self, active: Ints, precision: float) -> Floats:
        """Balance the active rows among themselves, in a basis that suits them; return their leverages."""
        points, weights = self.rows[active] @ self.basis.to_coordinates, self.weights[active]
        if np.abs(points).max() > LARGEST_COORDINATE:
            change, chosen = rebase(points, self._pivot)
            points, self.basis = points @ change, self.basis.changed(change)
            weights /= 2  # some weight on the new unit vectors keeps Q far from singular
            weights[chosen] += 0.5 / self.rank
        self.inverse = solve(points, weights, precision)
        self.weights[:] = 0.0
        self.weights[active] = weights
        return levers(points, self.inverse)

    def _widen(self, outside: Ints) -> None:
        """Start again in the larger span, since some rows of the pool are outside the old one."""
        wider = np.union1d(np.flatnonzero(self.weights), outside)
        self.basis, first = enlarged(self.basis, self.rows[wider], self.precise, self._pivot)
        if len(first):
            self.weights[:] = 0.0
            self.weights[wider[first]] = 1 / len(first)
            self._active = wider

    def admit(self, found: Found) -> float:
        """Keep the supporting rows and those that a pass found worth considering; return a bound for all other rows."""
        held = self.weights > 0
        worth = can_support(found.lever, float(found.lever[0]), self.rank) & (len(found.outside) == 0)
        worth[:1] = True  # keep the row of the largest leverage of all
        fresh = worth & ~np.isin(found.indices, self.indices[held])
        off = ~np.isin(found.outside, np.concatenate([self.indices[held], found.indices[fresh]]))
        self.indices = np.concatenate([self.indices[held], found.indices[fresh], found.outside[off]])
        self.rows = np.concatenate([self.rows[held], found.rows[fresh], found.outside_rows[off]])
        self.weights = np.concatenate([self.weights[held], np.zeros(len(self.indices) - held.sum())])
        self._active = np.flatnonzero(self.weights)
        if len(found.outside):
            self._widen(np.flatnonzero(np.isin(self.indices, found.outside)))
        return float(max(found.rest, found.lever[~worth].max(initial=0.0)))

    def support(self) -> tuple[Floats, Floats]:
        """The rows with weight, and their weights."""
        held = self.weights > 0
        return self.rows[held], self.weights[held]

    def growth(self, rows: Floats, weights: Floats) -> float:
        """A bound on how much any leverage has grown since these were the support: the factor lambda_max(Q_then Q_now^-1)."""
        points, factor = rows @ self.basis.to_coordinates, root(self.inverse)
        return float(np.linalg.eigvalsh(factor.T @ ((points.T * weights) @ points) @ factor)[-1]) * (1 + 1e-9)

    def thin(self) -> bool:
        """Reduce the support to at most r (r + 1) / 2 rows without a larger leverage; return whether there were more."""
        held = np.flatnonzero(self.weights)
        points = self.rows[held] @ self.basis.to_coordinates
        thin = caratheodory if self._pivot is pivots else version_0_1_0.caratheodory
        weights = thin(points, self.weights[held])
        fewer = not weights.all()
        self.weights[held] = weights
        if fewer:
            self.inverse = invert((points.T * weights) @ points)
            self.known = float(Rows(self.rows).scan(lens(self.basis, self.inverse), 1).lever[0])
        return fewer


def can_support(lever: Floats, largest: float, rank: int) -> Bools:
    """Which rows may support an optimal design: Harman and Pronzato (2007) prove that the others cannot.

    With epsilon = largest leverage / r - 1, a supporting row has leverage at least
    r (1 + epsilon/2 - sqrt(epsilon (4 + epsilon - 4/r)) / 2).
    """
    epsilon = max(largest / rank - 1, 0.0)
    bound = rank * (1 + epsilon / 2 - np.sqrt(epsilon * (4 + epsilon - 4 / rank)) / 2)
    may: Bools = lever >= bound * (1 - 1e-9)
    return may

"""Solving with information matrices, even those that rounding makes singular: the ridge is lost to rounding when features
have very different sizes.
"""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Floats

LEAST, STEP, STEPS = 1e-14, 100.0, 10
"""Share of the diagonal that is added if a factorisation fails, the factor by which it grows, and the most attempts."""


def solved(matrix: Floats, right: Floats) -> Floats:
    """The solution of a positive definite system."""
    try:
        return np.asarray(np.linalg.solve(matrix, right), np.float64)
    except np.linalg.LinAlgError:
        root = factor(matrix)
        return np.asarray(np.linalg.solve(root.T, np.linalg.solve(root, right)), np.float64)


def factor(matrix: Floats) -> Floats:
    """L, lower triangular, with L L' the matrix, or near it where rounding has left it not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(matrix), np.float64)
    except np.linalg.LinAlgError:
        diagonal = np.diag(matrix)
        size = np.sqrt(np.maximum(diagonal, LEAST * diagonal.max()))
        scaled, more = matrix / size / size[:, None], LEAST
        for _ in range(STEPS):
            try:
                return np.asarray(size[:, None] * np.linalg.cholesky(scaled + more * np.eye(len(scaled))))
            except np.linalg.LinAlgError:
                more *= STEP
        raise


def spread(information: Floats) -> Floats:
    """R, lower triangular, with R'R the covariance: z @ R is the deviation of a sample, for standard normal z."""
    return np.asarray(np.linalg.inv(factor(information)), np.float64)  # (L L')^-1 = L^-T L^-1

"""Linear regression for rankers with features, in place: sums that do not drift, factorisations, confidence scores.

With M = I + sum x x' and b = sum x w over the observations, theta = M^-1 b. M = F F' with F lower triangular ("factor"), and
z = F^-1 x is an item in coordinates where its width is a length: sqrt(x' M^-1 x) = |z|.

Adding the same x x' a million times loses digits, which changes decisions after some 10^5 rounds. So sums are compensated
(Neumaier): ``gram_low`` and ``target_low`` hold what rounding took away.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from recurrank._arrays import Floats
from recurrank._compiled import inner


class Regression(NamedTuple):
    """M and b with their compensations, and what follows from them when :func:`solve` was last called."""

    gram: Floats  # (d, d) M
    gram_low: Floats  # (d, d)
    target: Floats  # (d,) b
    target_low: Floats  # (d,)
    factor: Floats  # (d, d) F, lower triangular, F F' = M
    theta: Floats  # (d,) M^-1 b
    work: Floats  # (d,)
    ridge: Floats  # (1,) M is at least this times I


def no_data(dim: int, ridge: float = 1.0) -> Regression:
    """Before any observation: M = ridge * I."""
    gram = ridge * np.eye(dim)
    factor = math.sqrt(ridge) * np.eye(dim)
    zero = np.zeros(dim)
    return Regression(
        gram, np.zeros((dim, dim)), zero.copy(), zero.copy(), factor, zero.copy(), zero.copy(), np.array([ridge], np.float64)
    )


@inner
def add_compensated(high: float, low: float, term: float) -> tuple[float, float]:
    """High + low + term, as a sum and what rounding took away from it."""
    total = high + term
    if abs(high) >= abs(term):
        low += (high - total) + term
    else:
        low += (term - total) + high
    return total, low


@inner
def add(regression: Regression, x: Floats, weight: float, response: float) -> None:
    """M += weight x x',  b += response x."""
    gram, low = regression.gram, regression.gram_low
    for i in range(len(x)):
        for j in range(i + 1):
            gram[i, j], low[i, j] = add_compensated(gram[i, j], low[i, j], weight * (x[i] * x[j]))
            gram[j, i], low[j, i] = gram[i, j], low[i, j]
        regression.target[i], regression.target_low[i] = add_compensated(
            regression.target[i], regression.target_low[i], response * x[i]
        )


@inner
def solve(regression: Regression) -> None:
    """Compute F and theta from M and b."""
    factor, theta, work = regression.factor, regression.theta, regression.work
    d = len(theta)
    # Cholesky: F_ij = (M_ij - sum_k F_ik F_jk) / F_jj
    for j in range(d):
        for i in range(j, d):
            total = regression.gram[i, j] + regression.gram_low[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            # M is at least ridge * I, and so is every pivot: if rounding makes it less, use the ridge
            factor[i, j] = math.sqrt(max(total, regression.ridge[0])) if i == j else total / factor[j, j]
    # F work = b, F' theta = work
    for i in range(d):
        total = regression.target[i] + regression.target_low[i]
        for k in range(i):
            total -= factor[i, k] * work[k]
        work[i] = total / factor[i, i]
    for i in range(d - 1, -1, -1):
        total = work[i]
        for k in range(i + 1, d):
            total -= factor[k, i] * theta[k]
        theta[i] = total / factor[i, i]


@inner
def whiten(factor: Floats, x: Floats, z: Floats) -> float:
    """Z = F^-1 x; returns |z|^2 = x' M^-1 x."""
    square = 0.0
    for i in range(len(x)):
        total = x[i]
        for k in range(i):
            total -= factor[i, k] * z[k]
        z[i] = total / factor[i, i]
        square += z[i] * z[i]
    return square


@inner
def dot(x: Floats, y: Floats) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total

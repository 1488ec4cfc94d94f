"""Theta from data sets that each know it up to a factor of their own."""

from __future__ import annotations

import numpy as np

from recurrank._arrays import Floats


def profiled(moments: Floats, sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Theta from all data sets together, the information left when the scales s_i are profiled out, and the scales.

    theta = (I + sum s_i^2 V_i)^-1 sum s_i b_i,  s_i = theta'b_i / theta'V_i theta, falling, s_1 = 1, in turns;
    J = I + V_1 + sum_{i>1} s_i^2 (V_i - V_i theta theta'V_i / theta'V_i theta). V_i and b_i are divided by variances.
    """
    dim, count = moments.shape[1], len(moments)
    scales = np.zeros(count)
    scales[0] = 1.0
    theta = np.linalg.solve(np.eye(dim) + moments[0], sums[0])
    for _ in range(3 if count > 1 else 0):
        for i in range(1, count):
            seen = theta @ moments[i] @ theta
            scale = theta @ sums[i] / seen if seen > 0 else 0.0
            scales[i] = min(max(scale, 0.0), scales[i - 1] or 1.0)
        information = np.eye(dim) + np.tensordot(scales**2, moments, 1)
        theta = np.linalg.solve(information, scales @ sums)
    left = np.eye(dim) + moments[0]
    for i in range(1, count):
        image = moments[i] @ theta
        if scales[i] > 0 and theta @ image > 0:
            left = left + scales[i] ** 2 * (moments[i] - np.outer(image, image) / (theta @ image))
    return theta, left, scales

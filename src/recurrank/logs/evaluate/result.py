"""The result of an estimator, or the reason of its refusal."""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """The expected clicks per page of a policy.

    Attributes:
        estimator: its name.
        value: clicks per page.
        error: standard error.
        low: lower end of the 95 % interval.
        high: upper end.
        effective: the smallest effective sample size of a position; the number of pages if nothing is weighted.
        refused: the reason of a refusal; then the numbers are NaN.

    """

    estimator: str
    value: float
    error: float
    low: float
    high: float
    effective: float
    refused: str = ""

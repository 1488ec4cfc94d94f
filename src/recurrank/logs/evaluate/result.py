"""What an estimator says, or why it does not."""

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
        effective: effective sample size, of the position where it is smallest; pages where nothing is weighted.
        refused: why there is no answer; then the numbers are NaN.

    """

    estimator: str
    value: float
    error: float
    low: float
    high: float
    effective: float
    refused: str = ""

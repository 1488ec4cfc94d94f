"""The paper's regret bounds as functions.

| paper | code |
|---|---|
| Theorem 1, with the constants of its proof | ``upper_bound`` |
| Theorem 1, the rate K sqrt(d T log(L T)) | ``upper_rate`` |
| "Lower bounds" in the discussion: Omega(sqrt(d T K)) | ``lower_rate`` |
"""

from __future__ import annotations

import math

from recurrank._arrays import as_count, as_number


def phase_length(phase: int, items: int, dim: int, positions: int, delta: float, tolerance: float = 0.05) -> float:
    """The most rounds that one call in this phase can last: d(d+1)/2 roundings up, and D log(L/delta_ell) / (2 Delta^2).

    D = d (1 + tolerance) is the largest leverage that the design may have (exactly d in the paper), and
    delta_ell = delta / (2 K ell (ell + 1)), so that sum_ell 2 K delta_ell = delta.
    """
    smaller = delta / (2 * positions * phase * (phase + 1))
    return dim * (dim + 1) / 2 + dim * (1 + tolerance) * math.log(items / smaller) / (2 * 4.0**-phase)


def upper_bound(
    items: int, dim: int, positions: int, rounds: int, delta: float | None = None, tolerance: float = 0.05
) -> float:
    """Theorem 1 with explicit constants: a bound on RecurRank's regret under any click model that satisfies the assumptions.

    From the proof, with |T_ell| the length of phase ell:

        R_T  <=  delta T K  +  12 K sum_ell min(|T_ell|, T) Delta_ell.

    It holds for ``design="optimal"`` with this tolerance; ``tolerance=0`` is the paper's exact design.

    >>> upper_bound(items=10_000, dim=5, positions=10, rounds=5_000_000) > 90_000
    True
    """
    items, dim, positions, rounds = _checked(items, dim, positions, rounds)
    delta = 1 / math.sqrt(rounds) if delta is None else as_number("delta", delta)
    if not 0 < delta <= 1:
        raise ValueError(f"delta: {delta} is not a probability; give a number above 0 and at most 1")
    total, phase = 0.0, 1
    while (length := phase_length(phase, items, dim, positions, delta, tolerance)) < rounds:
        total += length * 2.0**-phase
        phase += 1
    total += rounds * 2.0 ** -(phase - 1)  # all later phases together: T (Delta_ell + Delta_ell/2 + ...)
    return delta * rounds * positions + 12 * positions * total


def upper_rate(items: int, dim: int, positions: int, rounds: int) -> float:
    """K sqrt(d T log(L T)), the rate of Theorem 1 without its constant.

    >>> round(upper_rate(items=100, dim=4, positions=2, rounds=100))
    121
    """
    items, dim, positions, rounds = _checked(items, dim, positions, rounds)
    return positions * math.sqrt(dim * rounds * math.log(items * rounds))


def lower_rate(dim: int, positions: int, rounds: int) -> float:
    """sqrt(d T K), the rate that no algorithm beats on every problem, without its constant (d = L if the items are orthogonal).

    >>> lower_rate(dim=4, positions=4, rounds=10_000)
    400.0
    """
    _, dim, positions, rounds = _checked(1, dim, positions, rounds)
    return math.sqrt(dim * rounds * positions)


def _checked(items: int, dim: int, positions: int, rounds: int) -> tuple[int, int, int, int]:
    return as_count("items", items), as_count("dim", dim), as_count("positions", positions), as_count("rounds", rounds)

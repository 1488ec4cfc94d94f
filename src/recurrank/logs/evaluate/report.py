"""``rr.evaluate``: estimates of a policy's clicks on a log, by several estimators with different assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from recurrank._frames import frame
from recurrank.logs.evaluate.modelled import covered, direct, position
from recurrank.logs.evaluate.policy import Policy, policy_of
from recurrank.logs.evaluate.result import Estimate
from recurrank.logs.evaluate.weighting import Weighing, doubly_robust, weighted
from recurrank.logs.evaluate.weights import Refused
from recurrank.logs.reading import pages_only, read
from recurrank.logs.sessions import EMPTY, Sessions

ASSUMES = {
    "iips": "a click depends on the item and its position only",
    "sn-iips": "a click depends on the item and its position only; slightly biased, less spread",
    "rips": "a click depends on the item, its position and what stands above it",
    "sn-rips": "a click depends on the item, its position and what stands above it; slightly biased, less spread",
    "cascade-dr": "a click depends on the item, its position and what stands above it; a baseline takes off spread",
    "position": "users click by the position-based model, examination being the same for all queries",
    "direct": "users click by the fitted click model",
}
"""Every estimator with its assumption."""
DEFAULT = ("iips", "sn-iips", "rips", "sn-rips", "cascade-dr", "position")
"""Estimators by default; "position" only on logs of up to MANY pages, since it fits a model."""
MANY = 200_000


@dataclass
class Evaluation:
    """Estimates of a policy's expected clicks per page.

    Attributes:
        policy: its name.
        pages: the number of pages in the log.
        shown: clicks per page in the log.
        rows: one per estimator, with the reason if it refused.
        overlap: by position, the share of pages for whose query the log shows the policy's item there; empty for a ranker.
        notes: limitations of the numbers.

    """

    policy: str
    pages: int
    shown: float
    rows: list[Estimate]
    overlap: list[float]
    notes: list[str] = field(default_factory=list)

    def to_frame(self) -> Any:
        """One row per estimator, as a DataFrame."""
        return frame([row._asdict() for row in self.rows])

    def figure(self) -> Any:
        """Estimates with their intervals, and what was shown (a matplotlib figure)."""
        from matplotlib.figure import Figure

        answered = [row for row in self.rows if not row.refused]
        figure = Figure(figsize=(7, 1 + 0.4 * len(answered)), layout="constrained")
        axes = figure.subplots()
        rows = np.arange(len(answered))
        values = np.array([row.value for row in answered])
        ends = np.array([[row.value - row.low, row.high - row.value] for row in answered]).reshape(-1, 2).T
        axes.errorbar(values, rows, xerr=ends, fmt="o")
        axes.axvline(self.shown, linestyle=":", color="grey", label="what was shown")
        axes.set(yticks=rows, yticklabels=[row.estimator for row in answered], xlabel="clicks per page", title=self.policy)
        axes.invert_yaxis()
        axes.legend(frameon=False)
        return figure


@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]  # its threads would wait busily
def evaluate(
    log: Any,
    policy: str | Sequence[str],
    estimators: str | Sequence[str] | None = None,
    *,
    model: str | None = None,
    interval: str = "bootstrap",
    seed: int = 0,
) -> Evaluation:
    """Estimate the clicks per page that a policy would have got on a log.

    Args:
        log: a file, a data frame, or :class:`~recurrank.logs.sessions.Sessions`. Weights need its ``propensity``, and for
            rips and cascade-dr its ``conditional``, or ``propensity`` and ``joint`` if it follows from them.
        policy: "shown", "order:a,b,c", "order:FILE", "scores:FILE.csv", "ranker:NAME", or item ids in order.
        estimators: names, or one text separated by commas; by default all but "direct", and, on
            logs of more than 200,000 pages, "position": they fit models.
        model: the click model of the direct method; by default the one that explains the log best.
        interval: "bootstrap" or "bernstein" (for estimators that are means over pages).
        seed: the seed of the bootstrap and of a ranker.

    >>> from recurrank.logs.sessions import Sessions
    >>> rng = np.random.default_rng(0)
    >>> items = np.argsort(rng.random((4000, 3)), axis=1)[:, :2].astype(np.int32)
    >>> clicks = (rng.random((4000, 2)) < np.array([0.8, 0.5, 0.1])[items] * [1, 0.5]).astype(np.uint8)
    >>> third = np.full((4000, 2), 1 / 3)
    >>> log = Sessions(np.zeros(4000, np.int32), items, clicks, [""], list("abc"), propensity=third)
    >>> row = evaluate(log, ["a", "b"], "iips").rows[0]  # the truth is 0.8 + 0.25
    >>> bool(row.low < 1.05 < row.high)
    True

    """
    names = _names(estimators)
    if interval not in ("bootstrap", "bernstein"):
        raise ValueError(f"interval: {interval!r} is unknown; choose bootstrap or bernstein")
    sessions = pages_only(read(log), "log")
    parsed = policy_of(policy, sessions)
    if estimators is None and parsed.ranker is not None:
        names = ["direct"]
    elif estimators is None and len(sessions) > MANY:
        names.remove("position")
    rows, weighing = [], Weighing(sessions, parsed)
    for name in names:
        try:
            if parsed.ranker is not None and name != "direct":
                raise Refused(
                    "a ranker that learns depends on clicks that the log does not have; only the direct method runs it"
                )
            if name == "direct":
                rows.append(direct(sessions, parsed, model, seed))
            elif name == "position":
                rows.append(position(sessions, parsed))
            elif name == "cascade-dr":
                rows.append(doubly_robust(weighing, interval, seed))
            else:
                rows.append(weighted(weighing, name, interval, seed))
        except Refused as reason:
            nothing = float("nan")
            rows.append(Estimate(name, nothing, nothing, nothing, nothing, 0.0, str(reason)))
    overlap = covered(sessions, parsed).tolist() if parsed.target is not None else []
    shown = float(sessions.clicks.sum() / len(sessions))
    return Evaluation(parsed.name, len(sessions), shown, rows, overlap, _notes(sessions, parsed))


def _notes(log: Sessions, policy: Policy) -> list[str]:
    """Limitations of the numbers: no clicks, or positions that the policy leaves empty."""
    notes = [] if log.clicks.any() else ["no clicks in the log"]
    if policy.target is not None:
        filled, lengths = (policy.target[log.query] != EMPTY).sum(axis=1), log.lengths
        short = filled < lengths
        if short.any():
            earned = log.clicks[np.arange(log.positions) < filled[:, None]].sum() / len(log)
            notes.append(
                f"the policy fills {filled[short].mean():.3g} of {lengths[short].mean():.3g} positions on {short.mean():.0%} "
                f"of the pages, and earns nothing at the others; shown at those that it fills: {earned:.4f} clicks per page"
            )
    return notes


def _names(estimators: str | Sequence[str] | None) -> list[str]:
    given = estimators if estimators is not None else DEFAULT
    names = [name.strip().lower() for name in (given.split(",") if isinstance(given, str) else given)]
    for name in names:
        if name not in ASSUMES:
            raise ValueError(f"estimators: {name!r} is unknown; choose from {', '.join(ASSUMES)}")
    return names

"""A ranker of requests in this process: each draw may have its own candidates and rules, and items come and go."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from recurrank._arrays import Ints
from recurrank.catalogue import Catalogue
from recurrank.rankers.ranker import Ranker
from recurrank.rankers.request import Answered, rules
from recurrank.rankers.request_ranker import RequestRanker
from recurrank.serving.asked import Asked, PackedRows, packed, packed_rows
from recurrank.serving.assigning import Baseline, allowed
from recurrank.serving.chances import Chances
from recurrank.serving.changes import NO_RULES, Stocked
from recurrank.serving.events import ShownRequest, pack_request
from recurrank.serving.fold import Fold
from recurrank.serving.hosted import Drawn, Settings
from recurrank.serving.hosted_stock import HostedStock
from recurrank.serving.request_fold import RequestFold
from recurrank.serving.spec import LoggedSpec
from recurrank.serving.store.records import StoredRanker

MOMENTS = 16_384
"""Most requests whose time and number of candidates are remembered, for the dashboard."""
UNCHANGED = 1.0
"""Seconds after which a view is renewed although nothing was decided since."""
STATE = 256 << 20
"""Most bytes of all segments of one ranker; requests that would need more are refused."""


class HostedRequestRanker(HostedStock):
    """A :class:`~recurrank.serving.hosted.HostedRanker` of requests.

    Attributes:
        asked: time and number of candidates of the last requests to this process.

    """

    fold: RequestFold
    _view: RequestRanker

    def __init__(
        self, stored: StoredRanker, spec: LoggedSpec, catalogue: Catalogue, fold: Fold, view: Ranker, stocked: Stocked
    ) -> None:
        assert isinstance(fold, RequestFold)
        assert isinstance(view, RequestRanker)
        self.asked: deque[tuple[float, int]] = deque(maxlen=MOMENTS)
        self.segments = max(1, STATE // max(1, view.state.moments.nbytes // len(view.segments)))
        super().__init__(stored, spec, catalogue, fold, view, stocked)

    def _compile(self) -> None:
        self.draw(Asked(features=np.zeros((1, self.catalogue.dim)), context=[0.0] * self._view.context or None))
        if self._whole():
            self.draw()
        self.asked.clear()

    def _whole(self) -> bool:
        stocked = self.stocked
        return stocked.rules == NO_RULES and len(stocked.stock) >= self.spec.positions and not self._view.context

    def _allowed(self, asked: Asked, baseline: Sequence[str]) -> Baseline:
        stocked = self.stocked
        ruled, stock = asked.under(stocked, self.spec.positions), stocked.stock
        most = self.spec.positions if ruled.positions is None else ruled.positions
        here: Container[Any] = stock.index if ruled.candidates is None else set(ruled.candidates)
        if not ruled.exclude and not ruled.pin:
            return allowed(baseline, min(most, ruled.count(len(stock))), here)
        names: Sequence[Any] = ruled.candidates or [stock.names[item] for item in stock.alive.tolist()]
        size = rules(names, ruled.exclude, ruled.pin, most).size
        return allowed(baseline, size, here, ruled.pin, set(ruled.exclude))

    def foreign(self, asked: Asked, names: Sequence[str]) -> Drawn:
        with self._drawing:
            stocked = self.stocked
            wanted = asked._replace(exclude=(), pin=dict(enumerate(names)), positions=len(names), explore=0.0)
            shown = self._answered(wanted, stocked)
            return Drawn(packed(shown, foreign=True), self._version, stocked.seq, shown.names)

    def would_show(self, asked: Asked | None) -> list[str]:
        with self._drawing:
            stocked = self.stocked
            return self._answered((asked or Asked()).under(stocked, self.spec.positions), stocked).names

    def draw(self, asked: Asked | None = None) -> Drawn:
        with self._drawing:
            stocked = self.stocked
            if (asked is None or asked.plain) and self._whole():
                self._draw_ahead()
                drawn = Drawn(self._ahead.pop(), self._version, stocked.seq)
                self.asked.append((time.monotonic(), len(stocked.stock)))
                return drawn
            shown = self._answered((asked or Asked()).under(stocked, self.spec.positions), stocked)
            return Drawn(packed(shown), self._version, stocked.seq, shown.names)

    def _answered(self, wanted: Asked, stocked: Stocked) -> Answered:
        """The answer to a request to which the rules have been applied."""
        self._check_segment(wanted.segment)
        features = wanted.features
        if isinstance(features, PackedRows):
            features = features.rows(self.catalogue.dim)
        shown = self._view.answered(
            features, candidates=wanted.candidates, context=wanted.context, segment=wanted.segment,
            exclude=wanted.exclude, pin=wanted.pin, positions=wanted.positions, explore=wanted.explore,
        )  # fmt: skip
        many = wanted.count(len(stocked.stock))
        self.asked.append((time.monotonic(), many))
        if wanted.candidates is not None:  # the view was given names, and counts the candidates itself
            return shown
        return shown._replace(names=[str(name) for name in shown.names], candidates=many)

    def _check_segment(self, segment: str | None) -> None:
        if segment not in self._view.segments and len(self._view.segments) > self.segments:
            raise ValueError(f"segment: {segment!r} would be one more than {self.segments}; name fewer, coarser segments")

    def _packed(self, view: Ranker, items: Any, marks: Ints, used: Ints, chances: Chances) -> list[bytes]:
        stock, known = self.stocked.stock, view.compiled_propensity is not None
        slates = []
        for i, row in enumerate(items.tolist()):
            features, single = packed_rows(stock.features[row])
            shown = ShownRequest(
                names=[str(stock.names[item]) for item in row], features=features, single=single, pinned=[], segment=None,
                done=int(marks[i, 0, 0]), change=float(marks[i, 0, 1].view(np.float64)), candidates=len(stock),
                propensity=chances.marginal[i].tolist() if known else None, joint=float(chances.joint[i]) if known else None,
            )  # fmt: skip
            slates.append(pack_request(shown))
        return slates

    def wants_renewal(self, now: float, settings: Settings) -> bool:
        """If only the account has changed since the view was made, the view may be older: it keeps an account itself."""
        ranker, view = self.fold.ranker, self._view
        same = view.by_decisions and view.decisions == ranker.decisions and len(view.segments) == len(ranker.segments)
        return super().wants_renewal(now, settings) and not (same and now - self._refreshed < UNCHANGED)

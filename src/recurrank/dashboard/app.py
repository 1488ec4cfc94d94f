"""The dashboard of a service, put together: ``recurrank serve`` hands it to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from recurrank.dashboard import assets, data, pages, view
from recurrank.dashboard.live import Live
from recurrank.dashboard.playground.routes import Playground
from recurrank.rankers import names
from recurrank.serving import auth
from recurrank.serving.service import Service
from recurrank.serving.tally import SLATES, SPAN

NOT_SERVED = ("oracle",)
"""Rankers that need to know the truth."""


class Dashboard:
    """Pages and what they are made of.

    Args:
        service: whose rankers are shown.
        keys: whether there are any decides what may be said without one.
        truths: by ranker, what a perfect ranking would get at each place, where that is known.
        demo: the ranker that a newcomer should look at first, if this is a demonstration.

    """

    def __init__(
        self, service: Service, keys: auth.Keys | None = None, truths: view.Truths | None = None, demo: str | None = None
    ) -> None:
        self._service, self._keys, self._demo = service, keys, demo
        known = truths or {}
        self._truths = known
        self._live = Live(service, lambda name: view.whole(service, name, known))
        self._playground = Playground()

    @property
    def handlers(self) -> Sequence[Any]:
        """All routes."""
        return [assets.static, *self._frames(), *data.handlers(self._service, self._live), *self._playground.handlers()]

    def public(self, path: str) -> bool:
        """Frames without data need no key."""
        return pages.public(path)

    def stop(self) -> None:
        """End streams and simulations."""
        self._live.stop()
        self._playground.stop()

    def _frames(self) -> list[Any]:
        spans: dict[str, Any] = {"span": f"{SPAN:,}", "slates": SLATES}

        @get("/", include_in_schema=False, sync_to_thread=False)
        def index() -> Response[str]:
            if self._demo:
                self._playground.warm()  # a newcomer may go there next
            return pages.render("list.html", "/", script="list.js", demo=self._demo, **spans)

        @get("/rankers/{name:str}", include_in_schema=False)
        async def ranker(name: FromPath[str]) -> Response[str]:
            known = self._service.find(name) is not None or await asyncio.to_thread(self._guarded)
            if not known or not pages.is_name(name):
                return pages.render("missing.html", "", 404, what=f"There is no ranker called “{name[:80]}”.")
            return pages.render("ranker.html", "", script="ranker.js", name=name, demo=name in self._truths, **spans)

        @get("/new", include_in_schema=False, sync_to_thread=False)
        def new() -> Response[str]:
            known = [name for name in names() if name not in NOT_SERVED]
            return pages.render("new.html", "/new", script="new.js", algorithms=known)

        @get("/playground", include_in_schema=False, sync_to_thread=False)
        def playground(request: Request[Any, Any, Any]) -> Response[str]:
            form = self._playground.form(dict(request.query_params))
            return pages.render("playground.html", "/playground", script="playground.js", **form)

        return [index, ranker, new, playground]

    def _guarded(self) -> bool:
        """Whether there are keys: then a frame does not tell which rankers there are."""
        return self._keys is not None and bool(self._keys.all())

"""The dashboard of a service, put together: ``recurrank serve`` hands it to the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Request, Response
from litestar.params import FromPath

from recurrank.dashboard import assets, data, pages, view
from recurrank.dashboard.live import Live
from recurrank.dashboard.playground.routes import Playground
from recurrank.rankers import DEFAULT, names
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.http.routes import PUBLIC, Route, route
from recurrank.serving.service import Service
from recurrank.serving.tally import SLATES, SPAN


class Dashboard:
    """Pages and what they are made of.

    Args:
        service: whose rankers are shown.
        keys: whether one is asked for decides what may be said without one.
        truths: by ranker, what a perfect ranking would get at each place, where that is known.
        demo: the ranker that a newcomer should look at first, if this is a demonstration.

    """

    def __init__(
        self, service: Service, keys: KeyRing | None = None, truths: view.Truths | None = None, demo: str | None = None
    ) -> None:
        self._service, self._keys, self._demo = service, keys, demo
        known = truths or {}
        self._truths = known
        self._live = Live(service, lambda name: view.whole(service, name, known))
        self._playground = Playground()

    @property
    def routes(self) -> Sequence[Route]:
        """All of them; frames have no data in them, and need no key."""
        return [assets.static, *self._frames(), *data.routes(self._service, self._live), *self._playground.routes()]

    def stop(self) -> None:
        """End streams and simulations."""
        self._live.stop()
        self._playground.stop()

    def _frames(self) -> list[Route]:
        spans: dict[str, Any] = {"span": f"{SPAN:,}", "slates": SLATES}

        @route("GET", "/", PUBLIC, include_in_schema=False, sync_to_thread=False)
        def index() -> Response[str]:
            if self._demo:
                self._playground.warm()  # a newcomer may go there next
            return pages.render("list.html", "/", script="list.js", demo=self._demo, **spans)

        @route("GET", "/rankers/{name}", PUBLIC, include_in_schema=False)
        async def ranker(name: FromPath[str]) -> Response[str]:
            # where keys are asked for, a frame does not tell which rankers there are
            known = self._service.find(name) is not None or (self._keys is not None and self._keys.required)
            if not known or not pages.is_name(name):
                return pages.render("missing.html", "", 404, what=f"There is no ranker called “{name[:80]}”.")
            return pages.render("ranker.html", "", script="ranker.js", name=name, demo=name in self._truths, **spans)

        @route("GET", "/new", PUBLIC, include_in_schema=False, sync_to_thread=False)
        def new() -> Response[str]:
            known = names(served=True)
            return pages.render("new.html", "/new", script="new.js", algorithms=known, usual=DEFAULT)

        @route("GET", "/playground", PUBLIC, include_in_schema=False, sync_to_thread=False)
        def playground(request: Request[Any, Any, Any]) -> Response[str]:
            form = self._playground.form(dict(request.query_params))
            return pages.render("playground.html", "/playground", script="playground.js", **form)

        @route("GET", "/docs", PUBLIC, include_in_schema=False, sync_to_thread=False)
        def docs() -> Response[str]:
            swagger = {"style": assets.address("swagger-ui.css"), "bundle": assets.address("swagger-ui-bundle.js")}
            return pages.render("docs.html", "/docs", script="docs.js", swagger=swagger)

        return [index, ranker, new, playground, docs]

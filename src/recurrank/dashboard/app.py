"""The dashboard of a service, which ``recurrank serve`` passes to the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recurrank.dashboard import assets, data, pages, view
from recurrank.dashboard.live import Live
from recurrank.dashboard.playground.routes import Playground
from recurrank.dashboard.playground.setup import options as declared_options
from recurrank.rankers import names
from recurrank.serving.http.decoder import Decoder
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.http.routes import PUBLIC, Answer, Request, Route, route
from recurrank.serving.service import Service
from recurrank.serving.spec import RankerSpec
from recurrank.serving.tally import SLATES, SPAN


class Dashboard:
    """The pages of a service, with their data and files.

    Args:
        service: whose rankers are shown.
        keys: the server's keys; if one is required, pages without one do not tell which rankers exist.
        truths: in a demonstration, by ranker, what is known about its problem.
        demo: in a demonstration, the ranker that newcomers should look at first.
        fitted: a file of click models fitted to a log, for the playground.

    """

    def __init__(
        self,
        service: Service,
        keys: KeyRing | None = None,
        truths: view.Truths | None = None,
        demo: str | None = None,
        fitted: str | None = None,
    ) -> None:
        self._service, self._keys, self._demo = service, keys, demo
        known = truths or {}
        self._truths = known
        self._live = Live(service, lambda name: view.whole(service, name, known))
        self._playground = Playground(fitted)

    def routes(self, decoder: Decoder) -> Sequence[Route]:
        """All routes; frames contain no data, and need no key."""
        fetched = data.routes(self._service, self._live, decoder)
        return [assets.static, *self._frames(), *fetched, *self._playground.routes()]

    def _story(self, name: str) -> str:
        """The story that a page of the demonstration tells; empty elsewhere."""
        if name not in self._truths:
            return ""
        hosted = self._service.registry.find(name)
        return "shop" if hosted is not None and hosted.spec.takes_requests else "films"

    def stop(self) -> None:
        """End streams and simulations."""
        self._live.stop()
        self._playground.stop()

    def _frames(self) -> list[Route]:
        spans: dict[str, Any] = {"span": f"{SPAN:,}", "slates": SLATES}

        @route("GET", "/", PUBLIC)
        async def index(_: Request) -> Answer:
            if self._demo:
                self._playground.warm()  # a newcomer may go there next
            return pages.render("list.html", "/", script="list.js", demo=self._demo, **spans)

        @route("GET", "/rankers/{name}", PUBLIC)
        async def ranker(request: Request) -> Answer:
            (name,) = request.parameters
            # if keys are required, a frame does not tell which rankers exist
            known = self._service.registry.find(name) is not None or (self._keys is not None and self._keys.required)
            if not known or not pages.is_name(name):
                return pages.render("missing.html", "", 404, what=f"No ranker is called “{name[:80]}”.")
            return pages.render("ranker.html", "", script="ranker.js", name=name, demo=self._story(name), **spans)

        @route("GET", "/new", PUBLIC)
        async def new(_: Request) -> Answer:
            known, usual = names(served=True), RankerSpec(positions=10)
            several = {name: fields for name, fields in declared_options().items() if name in known}
            # dim is for rankers without items, but the form takes a file of items
            options = {name: [(field, one) for field, one in fields if one.name != "dim"] for name, fields in several.items()}
            return pages.render("new.html", "/new", script="new.js", algorithms=known, options=options, usual=usual)

        @route("GET", "/playground", PUBLIC)
        async def playground(request: Request) -> Answer:
            form = self._playground.form(request.query)
            return pages.render("playground.html", "/playground", script="playground.js", **form)

        @route("GET", "/docs", PUBLIC)
        async def docs(_: Request) -> Answer:
            swagger = {"style": assets.address("swagger-ui.css"), "bundle": assets.address("swagger-ui-bundle.js")}
            return pages.render("docs.html", "/docs", script="docs.js", swagger=swagger)

        return [index, ranker, new, playground, docs]

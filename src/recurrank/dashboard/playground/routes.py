"""The playground's routes: the form, and a simulation as a stream of events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from recurrank.clicks import names as click_models
from recurrank.dashboard.playground import setup
from recurrank.dashboard.playground.runner import Runner
from recurrank.rankers import names as rankers
from recurrank.serving.http.problems import problem
from recurrank.serving.http.routes import Answer, Request, Route, route

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "x-accel-buffering": "no"}


class Playground:
    """Simulations for the page ``/playground``; ``fitted`` is a file of click models, offered in addition to the presets."""

    def __init__(self, fitted: str | None = None) -> None:
        self._runner = Runner()
        self._log = setup.YourLog.read(fitted) if fitted else None

    def warm(self) -> None:
        """Prepare for a simulation that may be requested soon."""
        self._runner.warm()

    def stop(self) -> None:
        """End running simulations."""
        self._runner.stop()

    def form(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The values of the page's template: fields with the settings in the address, and their errors."""
        _, errors = setup.read(query, self._log) if query else (None, {})
        options = setup.options()
        usual = {**setup.DEFAULTS, **{field: "" for several in options.values() for field, _ in several}}
        return {
            "values": {name: query.get(name, value) for name, value in usual.items()},
            "errors": errors,
            "models": click_models(),
            "parameters": setup.PARAMETERS,
            "rankers": setup.by_belief(),
            "most": setup.RANKERS,
            "plain": rankers(),
            "of_requests": setup.REQUEST_RANKERS,
            "options": options,
            "log": self._log,
        }

    def routes(self) -> list[Route]:
        """The routes; they use POST, so that pages of other origins cannot start anything."""

        @route("POST", "/dash/playground/warm", "admin")
        async def warm(_: Request) -> Answer:
            self.warm()
            return Answer(b"", status=204)

        @route("POST", "/dash/playground/run", "admin")
        async def run(request: Request) -> Answer:
            asked, errors = setup.read(msgspec.json.decode(request.body, type=dict[str, str]), self._log)
            if asked is None:
                field, said = next(iter(errors.items()))
                refused = {**json.loads(problem(400, f"{field}: {said}")), "errors": errors}
                return Answer(msgspec.json.encode(refused), "application/problem+json", 400)
            return Answer(_events(self._runner.run(asked)), "text/event-stream; charset=utf-8", headers=HEADERS)

        return [warm, run]


async def _events(happening: AsyncIterator[tuple[str, bytes]]) -> AsyncIterator[bytes]:
    async for name, document in happening:
        yield b"event: " + name.encode() + b"\ndata: " + document + b"\n\n"

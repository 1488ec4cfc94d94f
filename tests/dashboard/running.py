"""A real server with the dashboard, in a thread, on a port of its own."""

from __future__ import annotations

import json

from tests.serving.running import InThread

from recurrank.dashboard.app import Dashboard
from recurrank.serving.auth import Keys
from recurrank.serving.http.app import make_app
from recurrank.serving.http.gate import Limits
from recurrank.serving.http.keyring import KeyRing
from recurrank.serving.service import Service, Settings
from recurrank.serving.store import open_store

STRANGE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 2">',
    "{{ 7 * 7 }} &amp; ${1}",
    "עברית \u202e desrever \u202c",
    "日本語 🎬 e\u0301\u200d",
    "a\nnew line\tand a tab",
    "' OR 1=1; --",
    "</title></textarea><svg onload=window.hacked=3>",
]
"""Ids that would be something else where text is not text."""


class Server:
    """A service with its pages."""

    def __init__(
        self, address: str, keys: Keys | None = None, truths: dict | None = None, limits: Limits | None = None
    ) -> None:
        self.service = Service(open_store(address), seed=0, settings=Settings(refresh=0.05, poll=0.01))
        ring = KeyRing(keys) if keys else None
        self.pages = Dashboard(self.service, ring, truths)
        self.app = make_app(self.service, ring, limits or Limits(), self.pages)
        self.running = InThread(self.app, lifespan="off")
        self.url, self.port = self.running.url, self.running.port

    def disconnect(self) -> None:
        """Nobody can reach it."""
        self.running.stop()

    def connect(self) -> None:
        """It can be reached again, at the same address."""
        self.running = InThread(self.app, self.port, lifespan="off")

    def stop(self) -> None:
        self.pages.stop()
        self.disconnect()
        self.app.stop()
        self.service.close()


def ranker(items: int = 30, positions: int = 3, ids: list[str] | None = None, **more) -> dict:
    """A ranker as the API takes it."""
    names = ids or [f"item {n:03}" for n in range(items)]
    listed = [{"id": name, "features": [1.0, n % 7 / 7, n % 5 / 5]} for n, name in enumerate(names)]
    return {"positions": positions, "rounds": 1000, "items": listed, **more}


def use(http, name: str, rounds: int) -> list[str]:
    """So many slates, each with a click on its first position."""
    slates = [http.post(f"/v1/rankers/{name}/rank").json()["slate"] for _ in range(rounds)]
    answers = http.post("/v1/feedback", json=[{"slate": slate, "clicks": [0]} for slate in slates]).json()
    assert {answer["status"] for answer in answers} == {"learned"}
    return slates


def events(lines) -> list[tuple[str, dict]]:
    """Server-sent events of an iterator over lines, as they come."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])

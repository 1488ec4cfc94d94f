"""Whatever is sent is refused in a line, in little time and memory, and others are served meanwhile.

A slow machine that is busy with other tests needs 20 seconds for the dearest body, so that the server's own limit on decoding
is what holds here; ``python -m benchmarks attack`` measures the claims.
"""

from __future__ import annotations

import httpx
import pytest
from tests.serving.hostile.attack import attack, children
from tests.serving.hostile.bodies import bodies
from tests.serving.running import ITEMS, serving

from recurrank.client import Client
from recurrank.serving.http.gate import Limits

SECONDS, HEALTHZ, MEMORY = Limits().decoding, 2.0, 1 << 30


@pytest.mark.long
def test_every_hostile_body_is_refused(tmp_path):
    with serving("--store", f"sqlite:///{tmp_path}/x.db") as (process, url), Client(url) as client:
        client.create("films", 2, ITEMS, rounds=1000)
        client.create("shop", 2, ITEMS, algorithm="anchored")
        client.create("free", 2, algorithm="anchored", dim=2)
        outcomes = list(attack(url, process.pid, bodies()))
        assert len(outcomes) >= 40
        for outcome in outcomes:
            assert 400 <= outcome.status < 500, outcome
            assert '"detail":' in outcome.detail, outcome
            assert "Traceback" not in outcome.detail
            assert outcome.seconds < SECONDS, outcome
            assert outcome.healthz < HEALTHZ, outcome
            assert outcome.memory < MEMORY, outcome
        assert [line["name"] for line in client.rankers()] == ["films", "free", "shop"]
        assert [line["served"] for line in client.rankers()] == [0, 0, 0]
        assert httpx.get(f"{url}/readyz").status_code == 200
        assert len(children(process.pid)) <= 1

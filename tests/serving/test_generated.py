"""Generated requests: whatever is sent, alone or one after the other, gets a documented answer and never a 5xx."""

from __future__ import annotations

import json
import zlib
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from tests.serving.running import ITEMS
from tests.serving.test_http import Server

from recurrank.serving.http.gate import Limits
from recurrank.serving.http.upload import read_ranker

RANKER = {"positions": 2, "rounds": 1000, "items": [{"id": name, "features": features} for name, features in ITEMS]}
REFUSED = {"expected-statuses": [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429]}
CONFIG = {"checks": {"positive_data_acceptance": {"enabled": False}, "negative_data_rejection": REFUSED}}
"""All checks but the first: features may be zero, ids equal, lists too short, which no JSON schema says."""


def once(examples: int, **more) -> settings:
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(
        max_examples=examples, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=quiet, **more
    )


@pytest.fixture
def server(tmp_path):
    running = Server(f"sqlite:///{tmp_path}/x.db", limits=Limits(seconds=5))
    yield running
    running.stop()


@pytest.fixture
def api(server):
    """What a real server says about itself."""
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=schemathesis.Config.from_dict(CONFIG))


def test_single_requests(api, soaking):
    """Every route by itself, with data that fits its description and with data that does not."""
    seen: Counter[str] = Counter()

    def send(cases, examples: int) -> None:
        @once(examples)
        @given(cases)
        def check(case) -> None:
            response = case.call_and_validate()
            seen[f"{case.operation.label} {response.status_code}"] += 1

        check()

    for found in api.get_all_operations():
        operation = found.ok()
        takes_something = bool(operation.path_parameters) or bool(operation.body)
        send(operation.as_strategy(schemathesis.GenerationMode.POSITIVE), (60 if soaking else 25) if takes_something else 3)
        if takes_something:
            send(operation.as_strategy(schemathesis.GenerationMode.NEGATIVE), 2000 if soaking else 25)
    assert sum(seen.values()) > (1000 if soaking else 500)
    assert not any(" 5" in label for label in seen)
    assert {label.rpartition(" ")[2] for label in seen} >= {"200", "400", "404"}


def test_requests_one_after_the_other(api, server, soaking):
    """Rankers made, ranked with, reported on, asked about and deleted, in any order, with what the last answer said."""
    seen: Counter[str] = Counter()
    machine = api.as_state_machine()

    class Users(machine):
        def setup(self) -> None:
            self.names, self.slates = ["films"], []
            for name in server.service.names():
                server.service.delete(name)
            server.service.create("films", *read_ranker("application/json", json.dumps(RANKER).encode(), {}))

        def before_call(self, case) -> None:
            """Three of four requests are about something that is there: else little could follow."""
            chance = zlib.crc32(repr((case.path_parameters, case.body)).encode())
            if chance % 4 == 0:
                return
            if case.operation.label.startswith("PUT"):
                case.media_type, case.body, case.query = "application/json", RANKER, {}
            elif "name" in (case.path_parameters or {}) and self.names:
                case.path_parameters["name"] = self.names[chance % len(self.names)]
            elif case.operation.label == "POST /v1/feedback" and self.slates and isinstance(case.body, list):
                reports = [*(report for report in case.body if isinstance(report, dict)), {"clicks": [chance % 2]}]
                case.body = 2 * [{**report, "slate": self.slates[-1]} for report in reports]  # as a client that repeats

        def after_call(self, response, case) -> None:
            seen[f"{case.operation.label} {response.status_code}"] += 1
            if response.status_code == 200 and case.operation.label.startswith("PUT"):
                self.names.append(case.path_parameters["name"])
            if response.status_code == 200 and case.operation.label.endswith("/rank"):
                self.slates.append(response.json()["slate"])
            if response.status_code == 200 and case.operation.label == "POST /v1/feedback":
                seen.update(answer["status"] for answer in response.json())

    Users.run(settings=once(2000 if soaking else 25, stateful_step_count=15))
    assert sum(seen.values()) > (1000 if soaking else 500)
    assert not any(" 5" in label for label in seen)
    # how often depends on the ids in the answers
    assert {"PUT /v1/rankers/{name} 200", "POST /v1/rankers/{name}/rank 200", "DELETE /v1/rankers/{name} 204"} <= set(seen)
    assert {"learned", "duplicate"} <= set(seen)

"""What a server writes to its log: no secret, and nothing of a request."""

from __future__ import annotations

import io
import json

import httpx
import pytest
import structlog
from tests.serving.test_http import Server

from recurrank.serving import auth
from recurrank.serving.json_log import log_as_json

SENT = "what-a-client-sent"


@pytest.fixture
def lines(monkeypatch):
    before, file = structlog.get_config(), io.StringIO()
    log_as_json(file)
    yield lambda: [json.loads(line) for line in file.getvalue().splitlines()]
    structlog.configure(**before)


def test_an_unknown_error_is_logged_without_the_request(tmp_path, lines, monkeypatch):
    keys = auth.KeyFile(tmp_path / "keys")
    secret = auth.create(keys, "shop", ["admin"])
    running = Server(f"sqlite:///{tmp_path}/x.db", keys)

    def status(name: str) -> None:
        headers = {"authorization": secret}  # in a frame, as a server has them
        raise RuntimeError(f"{name} {headers}")

    monkeypatch.setattr(running.service, "status", status)
    try:
        with httpx.Client(base_url=running.url) as http:
            answer = http.get(f"/v1/rankers/{SENT}", headers={"authorization": f"Bearer {secret}"})
    finally:
        running.stop()
    assert answer.status_code == 500
    (failed,) = [line for line in lines() if line["event"] == "request failed"]
    assert (failed["error"], failed["route"]) == ("RuntimeError", "/v1/rankers/{name}")
    assert any("test_json_log.py" in frame for frame in failed["frames"])
    for said in (answer.text, json.dumps(lines())):
        assert secret not in said
        assert SENT not in said


def test_tracebacks_are_frames_and_secrets_are_redacted(lines):
    log, secret = structlog.get_logger("recurrank.test"), "rk_" + "s" * 43
    try:
        try:
            raise KeyError(secret)
        except KeyError as error:
            raise ValueError(SENT) from error
    except ValueError as error:
        log.exception("once")
        log.error("again", exc_info=error, header=f"Bearer {secret}")
    once, again = lines()
    assert once["frames"] == again["frames"]
    assert {"ValueError", "because of", "KeyError"} < set(once["frames"])
    assert again["header"] == "Bearer rk_[redacted]"
    assert SENT not in json.dumps(lines())
    assert secret not in json.dumps(lines())

"""Traces: a real server sends its spans to a real receiver; without the variables nothing is wrapped."""

from __future__ import annotations

import contextlib
import http.server
import signal
import socket
import threading

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.serving.running import serving, until

from recurrank.serving import traces

RANKER = {"positions": 2, "rounds": 1000, "items": [{"id": f"i{n}", "features": [1.0, n / 10]} for n in range(8)]}
CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"


@contextlib.contextmanager
def receiver():
    """An OTLP/HTTP receiver: its port, and the requests that it was sent."""
    sent: list[ExportTraceServiceRequest] = []

    class Receive(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                sent.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receive) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], sent
        server.shutdown()


def spans_in(sent) -> list:
    scopes = (scope for request in list(sent) for resource in request.resource_spans for scope in resource.scope_spans)
    return [span for scope in scopes for span in scope.spans]


def test_spans_of_a_server(tmp_path):
    store = f"sqlite:///{tmp_path}/x.db"
    with receiver() as (port, sent):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_SERVICE_NAME": "shop"}
        environment["OTEL_BSP_SCHEDULE_DELAY"] = "100"  # milliseconds
        with serving("--store", store, **environment) as (process, url), httpx.Client(base_url=url, timeout=60) as client:
            assert client.put("/v1/rankers/films", json=RANKER).status_code == 200
            caller = {"traceparent": f"00-{CALLER}-00f067aa0ba902b7-01"}
            slate = client.post("/v1/rankers/films/rank", json={"slate": "mine"}, headers=caller).json()["slate"]
            assert client.post("/v1/feedback", json=[{"slate": slate, "clicks": [0]}]).status_code == 200
            assert client.post("/v1/rankers/none/rank", json={}).status_code == 404
            until(lambda: {"learn", "snapshot"} <= {span.name for span in spans_in(sent)})
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
    resources = [resource for request in sent for resource in request.resource_spans]
    assert {a.value.string_value for one in resources for a in one.resource.attributes if a.key == "service.name"} == {"shop"}
    spans = spans_in(sent)
    found = {(span.name, next((a.value.int_value for a in span.attributes if "status" in a.key), 0)): span for span in spans}
    wanted = {("PUT /v1/rankers/{name}", 200), ("POST /v1/feedback", 200), ("POST /v1/rankers/{name}/rank", 404)}
    assert wanted | {("commit", 0), ("learn", 0), ("snapshot", 0)} <= set(found)
    ranked = found[("POST /v1/rankers/{name}/rank", 200)]
    assert ranked.trace_id.hex() == CALLER
    assert {a.key: a.value.string_value for a in ranked.attributes}["http.route"] == "/v1/rankers/{name}/rank"
    assert b"mine" not in b"".join(request.SerializeToString() for request in sent)  # nothing of what visitors sent


def test_without_the_variables_nothing_is_wrapped(monkeypatch):
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    application = object()
    with traces.traced(application) as served:
        assert served is application
        assert traces.span("commit", operations=1) is traces.span("learn", events=2)
    assert not traces.asked_for({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"})
    assert not traces.asked_for({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})


def test_what_cannot_be_sent_is_said_and_harms_nothing(tmp_path):
    environment = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with serving("--store", f"sqlite:///{tmp_path}/x.db", **environment) as (process, url):
        assert httpx.get(f"{url}/healthz").status_code == 200
    assert "only http/protobuf is known" in process.stderr.read()
    with socket.socket() as silent:  # connections are taken, and nobody answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with serving("--store", f"sqlite:///{tmp_path}/x.db", **environment) as (process, url):
            assert httpx.get(f"{url}/healthz").status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0  # and not 1, as where it had to end before it was done

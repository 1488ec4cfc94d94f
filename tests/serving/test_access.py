"""Who gets in: every route with every role, other spellings of paths, and servers whose keys are gone."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
import time
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import prepared
from tests.dashboard.running import Server, ranker
from tests.serving.running import serving, until

from recurrank.cli.serve import check_options
from recurrank.cli.serve import command as serve
from recurrank.serving import auth
from recurrank.serving.http import app, keyring
from recurrank.serving.http.problems import Refused
from recurrank.serving.http.routes import PROBED, PUBLIC, Route, Table
from recurrank.serving.store import StoreError

DOCUMENTED = re.findall(
    r"^\| (GET|PUT|POST|PATCH|DELETE) \| `(/.*?)` \| (.*?) \|$",
    Path("docs/security.md").read_text(encoding="utf-8"),
    flags=re.M,
)
"""Method, path and role of every route, as docs/security.md promises them."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
WHO = ("nobody", "wrong", *auth.ROLES)
REFUSED = (400, 401, 403, 404, 405)


class Guarded:
    """A real server with a key of each role, the ranker ``films`` and one that is called ``rank``."""

    def __init__(self, folder: Path) -> None:
        self.keys = auth.KeyFile(folder / "keys")
        self.secrets = {role: auth.create(self.keys, role, [role]) for role in auth.ROLES} | {"wrong": "rk_" + "x" * 43}
        self.reached: list[tuple[str, str]] = []
        self.server = Server(f"sqlite:///{folder}/x.db", self.keys)
        for name in ("films", "rank"):
            assert self.ask("admin", "PUT", f"/v1/rankers/{name}", json.dumps(ranker()))[0] == 200

    def ask(self, who: str, method: str, path: str, body: str = "") -> tuple[int, bytes]:
        """Status and the beginning of the answer to a request whose path is sent as it is."""
        head = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close", f"content-length: {len(body)}"]
        head += ["content-type: application/json"] if body else []
        head += [f"authorization: Bearer {self.secrets[who]}"] if who in self.secrets else []
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=120) as line:
            line.sendall("\r\n".join([*head, "", body]).encode("latin-1"))
            answer = b""
            while b"\r\n\r\n" not in answer:
                part = line.recv(1 << 16)
                assert part, answer
                answer += part
            return int(answer[9:12]), answer


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    reached: list[tuple[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:  # note which handler is called, before it is

        def noting(route: Route) -> Route:
            async def handler(request):
                reached.append((route.method, route.path))
                return await route.handler(request)

            return route._replace(handler=handler)

        patch.setattr(app, "Table", lambda routes: Table(map(noting, routes)))
        running = Guarded(tmp_path_factory.mktemp("guarded"))
        running.reached = reached
        yield running
        running.server.stop()


def allowed(who: str, role: str) -> bool:
    return role == "public" or who == "admin" or who == role or (role == "any key" and who in auth.ROLES)


def test_the_documentation_lists_the_table(guarded):
    table = guarded.server.app.table
    assert sorted((route.method, route.path, route.role) for route in table.routes) == sorted(DOCUMENTED)


@pytest.mark.parametrize("who", WHO)
def test_every_route_with_every_method(guarded, who):
    """The handler is reached exactly when the documentation says so."""
    known = {(method, path): role for method, path, role in DOCUMENTED}
    for template in sorted({path for _, path, _ in DOCUMENTED}):
        for method in METHODS:
            answers = "GET" if method == "HEAD" and template in PROBED else method
            role = known.get((answers, template))
            if who == "admin" and (method == "DELETE" or "playground/" in template):
                continue  # would delete the ranker, and start processes
            guarded.reached.clear()
            status, _ = guarded.ask(who, method, template.replace("{name}", "films").replace("{version}", "1"))
            if role is None:
                assert (status, guarded.reached) == (405, []), (method, template)
            elif allowed(who, role):
                assert guarded.reached == [(answers, template)]
            else:
                assert status == (403 if who in auth.ROLES else 401), (method, template)
                assert guarded.reached == []


@pytest.mark.parametrize("path", PROBED)
def test_a_probe_with_head_is_answered_as_get_without_its_body(guarded, path):
    get, head = (httpx.request(method, guarded.server.url + path) for method in ("GET", "HEAD"))
    assert (get.status_code, head.status_code) == (200, 200)
    assert (head.content, len(get.content)) == (b"", int(head.headers["content-length"]))
    assert httpx.post(guarded.server.url + path).headers["allow"] == "GET, HEAD"
    assert httpx.head(f"{guarded.server.url}/v1/rankers").status_code == 405


TRICKS = [
    "//v1/rankers", "/v1//rankers", "/v1/rankers/", "/v1/rankers//", "/./v1/rankers", "/x/../v1/rankers", "/../v1/rankers",
    "/v1/%72ankers", "/v1%2frankers", "/v1/rankers%00", "/v1/rankers%0a", "/v1/rankers;/rank", "/v1/rankers?/rank",
    "/V1/rankers", "/v1/rankers#/rank", "/v1/rankers\\", "/v1/rankers%5c", "/v1/rankers/films/", "//v1/rankers/films",
    "/v1/rankers/films?x=/rank", "/v1/rankers/rank", "/v1/rankers/rank/", "//v1/rankers/rank", "/v1/rankers/%72ank",
    "/v1/rankers/films/rank/../../films", "//dash/rankers", "//dash/rankers/films/log", "//dash/rankers/films/state",
    "//dash/rankers/films/items", "//dash/rankers/films/live", "/dash//rankers/films/log", "/dash/rankers/films/log/",
    "/static/../dash/rankers", "/static/..%2f..%2fdash/rankers", "/rankers/../dash/rankers/films/log",
    "/dash/rankers/films/log/rank", "/healthz/../v1/rankers", "/v1/feedback/../rankers", "http://127.0.0.1/v1/rankers",
    "http://127.0.0.1//v1/rankers", "/metrics/", "//metrics", "*", "/litestar-docs", "/litestar-docs/openapi.json", "/schema",
    "/v1/rankers/films/rank/rank", "/v1/rankers/\xe9", "/\x80",
]  # fmt: skip


@pytest.mark.parametrize("who", ["nobody", "wrong", "rank", "feedback"])
def test_tricks_with_paths(guarded, who):
    """No other spelling of a path leads anywhere; nor does a ranker that is called as a route is."""
    for path in TRICKS:
        for method in ("GET", "PUT", "DELETE", "POST"):
            guarded.reached.clear()
            status, answer = guarded.ask(who, method, path, json.dumps(ranker()) if method == "PUT" else "")
            assert status in REFUSED, (method, path)
            assert guarded.reached == [], (method, path)
            assert b"item 0" not in answer
    assert {"films", "rank"} <= set(guarded.server.service.names())


segments = st.sampled_from(
    ["", ".", "..", "v1", "rankers", "films", "rank", "feedback", "dash", "log", "state", "items", "live", "static", "metrics",
     "healthz", "preview", "playground", "run", "%2e%2e", "%2f", "%72ank", "rank%00", "a b", "\x7f", "\xff", ";rank", "#"]
)  # fmt: skip
paths = st.lists(segments, max_size=7).map(lambda parts: "/" + "/".join(parts))


@settings(max_examples=400)
@given(who=st.sampled_from(["nobody", "wrong", "rank", "feedback"]), method=st.sampled_from(METHODS), path=paths)
def test_generated_paths_reach_no_handler_of_another_role(guarded, who, method, path):
    guarded.reached.clear()
    status, _ = guarded.ask(who, method, path.replace(" ", "%20"))
    assert status < 500
    roles = {(method, path): role for method, path, role in DOCUMENTED}
    for route in guarded.reached:
        assert allowed(who, roles[route]), (route, path)


@given(paths.map(lambda path: path.encode("latin-1")))
def test_a_path_has_one_spelling(path):
    """What the table finds, put into its template, is the path as it was sent."""
    table = Table(Route(method, path, role, None) for method, path, role in DOCUMENTED)
    found = table.find(path)
    if found is not None:
        values = iter(found.parameters)
        assert re.sub(r"{\w+}", lambda _: next(values), next(iter(found.routes.values())).path).encode() == path


def test_a_route_is_declared_once():
    with pytest.raises(ValueError, match="declared twice"):
        Table([Route("GET", "/a/{x}", PUBLIC, None), Route("GET", "/a/{y}", "admin", None)])


@pytest.mark.parametrize("header", ["host: evil.example", "origin: http://127.0.0.1", "authorization: Bearer x"])
def test_two_headers_of_which_one_may_be_believed(guarded, header):
    with socket.create_connection(("127.0.0.1", guarded.server.port), timeout=20) as line:
        name = header.partition(":")[0]
        head = f"GET /healthz HTTP/1.1\r\nconnection: close\r\nhost: 127.0.0.1\r\n{header}\r\n{name}: 127.0.0.1\r\n\r\n"
        line.sendall(head.encode())
        answer = b"".join(iter(lambda: line.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert f"{name}: sent twice".encode() in answer


def test_a_server_whose_keys_are_gone_is_closed(tmp_path, monkeypatch):
    """All revoked, deleted, unreadable: every request is refused until there is a key again."""
    monkeypatch.setattr(keyring, "LOOK_SECONDS", 0.05)
    keys = auth.KeyFile(tmp_path / "keys")
    secret = auth.create(keys, "shop", ["admin"])
    running = Server(f"sqlite:///{tmp_path}/x.db", keys)
    try:
        with httpx.Client(base_url=running.url) as http:

            def status(key: str | None = None) -> int:
                headers = {"authorization": f"Bearer {key}"} if key else {}
                return http.get("/v1/rankers", headers=headers).status_code

            def closed(because: str, code: int) -> None:
                until(lambda: because in http.get("/readyz").text)
                assert http.get("/readyz").status_code == http.head("/readyz").status_code == 503
                assert http.get("/healthz").status_code == 200
                for key in (None, secret):
                    assert status(key) == code
                assert http.delete("/v1/rankers/films").status_code == code

            assert (status(), status(secret), http.get("/readyz").status_code) == (401, 200, 200)
            auth.revoke(keys, "shop")
            closed("keys: there are none", 401)
            keys.path.unlink()
            closed("keys: there are none", 401)
            keys.path.write_text("{")
            closed("keys: they cannot be read", 503)
            keys.path.unlink()
            keys.path.mkdir()
            closed("keys: they cannot be read", 503)
            keys.path.rmdir()
            again = auth.create(keys, "shop", ["admin"])
            until(lambda: status(again) == 200)
            assert (status(), status(secret), http.get("/readyz").status_code) == (401, 401, 200)
    finally:
        running.stop()


def test_an_open_server_closes_with_its_first_key_for_good(tmp_path, monkeypatch):
    monkeypatch.setattr(keyring, "LOOK_SECONDS", 0.05)
    keys = auth.KeyFile(tmp_path / "keys")
    running = Server(f"sqlite:///{tmp_path}/x.db", keys)
    try:
        with httpx.Client(base_url=running.url) as http:
            assert http.get("/v1/rankers").status_code == 200
            auth.create(keys, "shop", ["admin"])
            until(lambda: http.get("/v1/rankers").status_code == 401)
            auth.revoke(keys, "shop")
            until(lambda: http.get("/readyz").status_code == 503)
            assert http.get("/v1/rankers").status_code == 401
    finally:
        running.stop()


def test_a_process_whose_only_key_is_revoked(tmp_path):
    """As an operator would do it, on an address that others can reach."""
    store = f"sqlite:///{tmp_path}/x.db"
    auth.create(auth.open_keys(store), "shop", ["admin"])
    with serving("--store", store, "--host", "0.0.0.0") as (process, url):
        address = url.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=address) as http:
            assert http.get("/v1/rankers").status_code == 401
            prepared.run(
                [sys.executable, "-m", "recurrank", "keys", "revoke", "shop", "--store", store], check=True, capture_output=True
            )
            until(lambda: http.get("/readyz").status_code == 503)
            end = time.monotonic() + 2.5  # longer than keys are remembered
            while time.monotonic() < end:
                assert http.get("/v1/rankers").status_code == 401
                assert http.delete("/v1/rankers/films").status_code == 401
                time.sleep(0.1)
        process.terminate()
        assert "every request is refused" in process.stderr.read()


def test_keys_that_root_writes_are_the_servers(tmp_path, given):
    """An administrator who makes a key must not shut the server, which runs as another account, out of its keys."""
    keys = auth.open_keys(f"sqlite:///{tmp_path}/x.db")
    auth.create(keys, "first", ["admin"])  # there is not even a store
    for change in (lambda: auth.create(keys, "second", ["admin"]), lambda: auth.revoke(keys, "first")):
        if os.getuid() == 0:  # else all are this account's
            os.chown(tmp_path / "x.db.keys", 12345, 12346)
        owner = (tmp_path / "x.db.keys").stat()
        given.clear()
        change()
        files = [tmp_path / "x.db.keys", tmp_path / "x.db.keys.lock"]
        assert given == {path.stat().st_ino: (owner.st_uid, owner.st_gid) for path in files}


def test_root_gives_nothing_away_through_a_link(tmp_path, given):
    """The folder is the server's, who could put a link there before an administrator's command."""
    (tmp_path / "secret").write_text("root's own")
    os.link(tmp_path / "secret", tmp_path / "x.db.keys.lock")
    os.symlink(tmp_path / "secret", tmp_path / "x.db.keys.partial")
    auth.create(auth.open_keys(f"sqlite:///{tmp_path}/x.db"), "shop", ["admin"])
    assert (tmp_path / "secret").read_text() == "root's own"
    assert (tmp_path / "secret").stat().st_ino not in given


class SlowKeys:
    """Keys in a store that can be stopped."""

    def __init__(self, keys: list[auth.Key]) -> None:
        self.keys, self.waits, self.away = keys, 0.0, False

    def all(self) -> list[auth.Key]:
        time.sleep(self.waits)
        if self.away:
            raise StoreError("it is away")
        return self.keys


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A key's header, the keys, and a server's view of them that is as old as it may be after 50 milliseconds."""
    monkeypatch.setattr(keyring, "LOOK_SECONDS", 0.05)
    kept = auth.KeyFile(tmp_path / "keys")
    header = f"Bearer {auth.create(kept, 'shop', ['admin'])}".encode()
    keys = SlowKeys(kept.all())
    return header, keys, keyring.KeyRing(keys)


def test_a_revoked_key_is_not_accepted_after_a_quiet_time(slow):
    header, keys, ring = slow

    async def asked() -> str:
        await ring.look()
        return ring.owner(header).name

    async def run() -> None:
        assert await asked() == "shop"
        keys.keys, keys.waits = [], 0.1
        await asyncio.sleep(0.1)
        for answer in await asyncio.gather(asked(), asked(), return_exceptions=True):
            assert isinstance(answer, Refused)

    asyncio.run(run())


def test_a_store_that_is_away_holds_nobody_up_for_long(slow, monkeypatch):
    """The keys that were read last hold."""
    monkeypatch.setattr(keyring, "PATIENCE", 0.05)
    header, keys, ring = slow

    async def run() -> None:
        await ring.look()
        keys.away, keys.waits = True, 0.5
        await asyncio.sleep(0.1)
        began = time.monotonic()
        for _ in range(1_000):
            await ring.look()
            assert ring.owner(header).name == "shop"
        assert time.monotonic() - began < 0.45  # one of them waited

    asyncio.run(run())


def test_a_key_in_a_page_is_bound_to_a_ranker_an_origin_and_a_rate(tmp_path):
    keys = auth.KeyFile(tmp_path / "keys")
    admin = auth.create(keys, "admin", ["admin"])
    page = auth.create(keys, "page", ["feedback", "rank"], ranker="films", origin="https://shop.example", rate=4)
    server = Server(f"sqlite:///{tmp_path}/x.db", keys)
    shop, evil = {"origin": "https://shop.example"}, {"origin": "https://evil.example"}
    try:
        with httpx.Client(base_url=server.url, timeout=120) as http:
            everything, own = ({"authorization": f"Bearer {secret}"} for secret in (admin, page))
            for name in ("films", "other"):
                assert http.put(f"/v1/rankers/{name}", json=ranker(), headers=everything).status_code == 200
                http.post(f"/v1/rankers/{name}/rank", json={"slate": name}, headers=everything)
            assert http.options("/v1/feedback", headers=shop).status_code == 204
            assert http.options("/v1/feedback", headers=evil).status_code == 403
            reports = [{"slate": name, "clicks": [0]} for name in ("films", "other")]
            assert http.post("/v1/feedback", json=reports, headers=own).status_code == 403  # of no page
            assert http.post("/v1/feedback", json=reports, headers={**own, **evil}).status_code == 403
            assert http.post("/v1/feedback", json=reports, headers={**everything, **shop}).status_code == 403  # not its key
            assert http.post("/v1/rankers/other/rank", headers={**own, **shop}).status_code == 403
            for path in ("/metrics", "/openapi.json"):
                assert http.get(path, headers={**own, **shop}).status_code == 403
                assert http.get(path, headers=everything).status_code == 200
            answer = http.post("/v1/feedback", json=reports, headers={**own, **shop})
            assert [one["status"] for one in answer.json()] == ["learned", "unknown"]
            assert answer.headers["access-control-allow-origin"] == "https://shop.example"
            many = [http.post("/v1/feedback", json=[], headers={**own, **shop}).status_code for _ in range(30)]
            assert many.count(429) > 0
            assert http.post("/v1/feedback", json=reports[1:], headers=everything).json()[0]["status"] == "learned"
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("given_as", "sent_as"),
    [
        ("https://Shop.Example:443", "https://shop.example"),
        ("HTTP://shop.example:80", "http://shop.example"),
        ("https://shop.example:8443", "https://shop.example:8443"),
        ("http://[::1]:443", "http://[::1]:443"),
    ],
)
def test_an_origin_is_kept_as_browsers_send_it(tmp_path, given_as, sent_as):
    keys = auth.KeyFile(tmp_path / "keys")
    auth.create(keys, "page", ["feedback"], origin=given_as)
    assert keys.all()[0].bound("origin") == sent_as
    options = serve.make_context("serve", ["--allow-origin", given_as]).params
    assert check_options(**options).limits.origins == (sent_as,)


@pytest.mark.parametrize("given_as", ["https://a.example/", "a.example", "https://a.example/page", "*", "null", ""])
def test_what_is_not_an_origin_is_refused(given_as):
    options = serve.make_context("serve", ["--allow-origin", given_as]).params
    with pytest.raises(ValueError, match=rf"^allow-origin: {re.escape(repr(given_as))} is not an origin; give one as https://"):
        check_options(**options)


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({"ranker": "a b"}, "ranker: 'a b'"),
        ({"origin": "shop.example"}, "origin: 'shop.example'"),
        ({"origin": "https://shop.example/page"}, "without a path"),
        ({"rate": 0}, "rate: 0"),
        ({"roles": ["admin"], "ranker": "films"}, "roles: a key with the role admin"),
    ],
)
def test_bounds_that_will_not_do(tmp_path, bounds, says):
    keys = auth.KeyFile(tmp_path / "keys")
    with pytest.raises(ValueError, match=says):
        auth.create(keys, "page", **{"roles": ["feedback"], **bounds})
    assert keys.all() == []

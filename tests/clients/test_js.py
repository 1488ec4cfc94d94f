"""The client for JavaScript: in Chromium and in Node, against a real server."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import time

import httpx
import pytest
from tests.clients.conftest import SOURCE
from tests.dashboard.running import ranker

KB = 1024


@pytest.fixture
def shop(service):
    with httpx.Client(base_url=service.url, timeout=120) as http:
        assert http.put("/v1/rankers/shop", json=ranker(items=6, positions=3)).status_code == 200
        yield http


def status(http) -> dict:
    """Counts of the ranker, once every event is folded."""
    for _ in range(200):
        if http.get("/readyz").json()["lag"] == 0:
            break
    return http.get("/v1/rankers/shop").json()


def arrived(http, slates: int) -> dict:
    """The same, when so many slates were learned from or twenty seconds have passed."""
    deadline = time.monotonic() + 20
    while (found := status(http))["learned"] < slates and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def test_the_types_are_those_of_the_server(service):
    spec = importlib.util.spec_from_file_location("make_types", SOURCE / "make_types.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    document = httpx.get(f"{service.url}/openapi.json").json()
    assert script.FILE.read_text(encoding="utf-8") == script.text(document), "run: python clients/js/make_types.py URL"


def test_it_is_below_5_kb_without_dependencies(built):
    assert len(gzip.compress((built / "index.js").read_bytes(), 9)) < 5 * KB
    assert not json.loads((SOURCE / "package.json").read_text()).get("dependencies")
    assert (built / "index.d.ts").is_file()


def test_clicks_arrive_once_though_the_page_is_left_at_once(service, shop, site, open_page, said, soaking):
    """Every page forgets what it could not deliver, so that nothing but the request that outlives its page can do it."""
    visits = 1_000 if soaking else 50
    page = open_page()
    for visit in range(visits):
        page.goto(f"{site}/shop.html?forget&server={service.url}&slate=visit-{visit}")
        page.wait_for_function("document.title === 'ready'")
        # the click leads to another page; before that one is there, the tab goes to a third
        page.evaluate(f"document.querySelectorAll('a')[{visit % 3}].click(); location.href = '/left.html?again'")
        page.wait_for_function("document.title === 'left'")
    found = arrived(shop, visits)
    assert found["served"] == visits
    assert found["learned"] >= 0.999 * visits
    assert found["clicks"] == found["learned"]  # none twice
    assert not said


def test_what_a_page_could_not_deliver_the_next_one_does(service, shop, site, open_page, said):
    page = open_page()
    page.goto(f"{site}/shop.html?server={service.url}&slate=offline")
    page.wait_for_function("document.title === 'ready'")
    service.disconnect()  # in truth: what a page sends while it closes is not under its browser's offline mode
    page.evaluate("document.querySelectorAll('a')[1].addEventListener('click', (event) => event.preventDefault())")
    page.evaluate("document.querySelectorAll('a')[1].click()")
    page.wait_for_function("Object.keys(localStorage).length === 1")
    context = page.context
    page.close()
    time.sleep(1)  # what the page sends while it closes fails, too
    service.connect()
    assert status(shop)["learned"] == 0
    page = context.new_page()
    page.goto(f"{site}/shop.html?server={service.url}&slate=online")
    found = arrived(shop, 1)
    assert (found["learned"], found["clicks"]) == (1, 1)
    page.wait_for_function("Object.keys(localStorage).length === 0")
    said.clear()  # of requests that were made to fail


def test_the_observer_knows_what_was_seen_and_clicked(service, shop, site, open_page, said):
    page = open_page()  # 900 pixels: two links of 400
    page.goto(f"{site}/shop.html?server={service.url}&slate=seen")
    page.wait_for_function("document.title === 'ready'")
    page.wait_for_function("observer.seen.length === 2")
    assert page.evaluate("observer.seen") == [0, 1]
    page.evaluate("scrollTo(0, 400)")
    page.wait_for_function("observer.seen.length === 3")
    page.evaluate("for (const a of document.querySelectorAll('a')) a.addEventListener('click', (e) => e.preventDefault())")
    page.evaluate("for (const n of [0, 0]) document.querySelectorAll('a')[n].click()")
    press = "([n, button]) => document.querySelectorAll('a')[n].dispatchEvent(new MouseEvent('auxclick', { button }))"
    page.evaluate(press, [1, 2])  # the right button: a menu
    page.evaluate(press, [2, 1])  # the middle one: a tab
    assert page.evaluate("observer.clicks") == [0, 2]
    page.evaluate("observer.stop(); observer.stop()")
    found = arrived(shop, 1)
    assert found["click_rate_by_position"] == [1.0, 0.0, 1.0]
    assert not said


def test_what_is_taller_than_the_viewport_is_seen_where_it_covers_half_of_it(service, shop, site, open_page, said):
    page = open_page()
    page.goto(f"{site}/shop.html?server={service.url}&slate=tall")
    page.wait_for_function("document.title === 'ready'")
    page.evaluate(
        """async (server) => {
        const { Recurrank } = await import("/index.js");
        const elements = document.querySelectorAll("a");
        for (const element of elements) element.style.height = "3000px";
        window.tall = new Recurrank(server, { storage: null }).observe("tall", elements);
    }""",
        service.url,
    )
    page.wait_for_function("tall.seen.length === 1")  # 900 of 3,000 pixels
    page.evaluate("scrollTo(0, 2400)")  # 300 pixels of the second one
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("tall.seen") == [0]
    page.evaluate("scrollTo(0, 2700)")
    page.wait_for_function("tall.seen.length === 2")
    assert not said


@pytest.mark.parametrize("browser", ["back"], indirect=True)
def test_a_visit_goes_on_after_the_back_button(service, shop, site, open_page, said):
    page = open_page()
    page.goto(f"{site}/shop.html?server={service.url}&slate=back")
    page.wait_for_function("observer?.seen.length === 2")
    page.evaluate("""() => {
        const real = fetch;
        window.sent = [];
        window.fetch = (url, asked) => (sent.push(JSON.parse(asked.body)), real(url, asked));
    }""")
    page.evaluate("document.querySelectorAll('a')[0].click()")
    page.wait_for_function("document.title === 'left'")
    page.evaluate("history.back()")
    page.wait_for_function("window.sent?.length === 2")  # the same page as before
    assert page.evaluate("sent") == [
        [{"slate": "back", "clicks": [0], "final": False}],
        [{"slate": "back", "clicks": [0], "final": False, "seen": [0, 1]}],
    ]
    page.evaluate("scrollTo(0, 400)")
    page.wait_for_function("observer.seen.length === 3")
    page.evaluate("document.querySelectorAll('a')[2].addEventListener('click', (event) => event.preventDefault())")
    page.evaluate("document.querySelectorAll('a')[2].click()")
    page.evaluate("observer.stop()")
    found = arrived(shop, 1)
    assert found["click_rate_by_position"] == [1.0, 0.0, 1.0]
    assert not said


NODE = """
import { Recurrank, RecurrankError } from %(module)s;
const client = new Recurrank(%(url)s, { retries: 1 });
const first = await client.rank("shop", { slate: "node" });
const again = await client.rank("shop", { slate: "node" });
const reported = await client.feedback({ slate: "node", clicks: [1] });
const repeated = await client.feedback([{ slate: "node", clicks: [1] }]);
const refused = await client.rank("none").catch((error) => error);
const lost = await new Recurrank("http://127.0.0.1:9", { retries: 1 }).rank("shop").catch((error) => error);
console.log(JSON.stringify({
  same: String(first.items) === String(again.items), items: first.items.length, reported, repeated,
  refused: [refused instanceof RecurrankError, refused.status], lost: [lost instanceof RecurrankError, lost.status],
}));
"""


def test_in_node(built, service, shop):
    program = NODE % {"module": json.dumps((built / "index.js").as_uri()), "url": json.dumps(service.url)}
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(done.stdout) == {
        "same": True,
        "items": 3,
        "reported": [{"slate": "node", "status": "learned"}],
        "repeated": [{"slate": "node", "status": "duplicate"}],
        "refused": [True, 404],
        "lost": [True, 0],
    }


STORED = """
import { Recurrank } from %(module)s;
class Memory {
  entries = {};
  get length() { return Object.keys(this.entries).length; }
  key(n) { return Object.keys(this.entries)[n] ?? null; }
  getItem(name) { return this.entries[name] ?? null; }
  setItem(name, text) { this.entries[name] = text; }
  removeItem(name) { delete this.entries[name]; }
}
const url = %(url)s, network = fetch, storage = new Memory();
const client = (key) => new Recurrank(url, { key, storage, retries: 0 });
/** Reports that cannot be sent now. */
const keep = async (key, ...reports) => {
  globalThis.fetch = () => Promise.reject(new Error("offline"));
  await client(key).feedback(reports).catch(() => undefined);
  globalThis.fetch = network;
};
const kept = () => Object.values(storage.entries).flatMap((text) => JSON.parse(text)?.map((report) => report.slate));
/** A server that answers with this status, and what it was sent. */
const answering = (status) => {
  const sent = [];
  globalThis.fetch = async (_, { headers, body }) => {
    const slates = JSON.parse(body).map((report) => report.slate);
    sent.push([headers.authorization ?? "", ...slates]);
    return Response.json({ detail: "so it is" }, { status: typeof status === "function" ? status(slates) : status });
  };
  return sent;
};
%(program)s
"""


def in_node(built, program, url="http://127.0.0.1:9"):
    """What the program prints, as JSON."""
    text = STORED % {"module": json.dumps((built / "index.js").as_uri()), "url": json.dumps(url), "program": program}
    command = ["node", "--input-type=module", "--eval", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def test_a_malformed_report_does_not_take_others_with_it(built, service, shop):
    for n in range(7):
        shop.post("/v1/rankers/shop/rank", json={"slate": f"good-{n}"})
    program = """
    for (let n = 0; n < 5; n++) await keep("", { slate: `good-${n}`, clicks: [0] });
    await keep("", { slate: "bad", clicks: [NaN] });
    const many = Array(600).fill({ slate: "none", clicks: [] });  // two are more than a request may have
    for (const n of [5, 6]) await keep("", { slate: `good-${n}`, clicks: [0] }, ...many);
    storage.setItem(storage.key(0) + "x", "null");
    storage.setItem(storage.key(0) + "y", "{");
    const before = storage.length;
    await client().flush();
    console.log(JSON.stringify([before, kept()]));
    """
    assert in_node(built, program, service.url) == [10, []]
    assert arrived(shop, 7)["clicks"] == 7


def test_what_is_refused_alone_is_forgotten(built):
    program = """
    for (const slate of ["a", "large", "b"]) await keep("", { slate, clicks: [] });
    const sent = answering((slates) => (slates.includes("large") ? 413 : slates.includes("b") ? 503 : 200));
    await client().flush();
    console.log(JSON.stringify([kept(), sent.at(-1)]));
    """
    assert in_node(built, program) == [["b"], ["", "b"]]


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_what_another_key_or_another_time_may_bring_is_kept(built, status):
    program = """
    await keep("", { slate: "a", clicks: [] }); await keep("", { slate: "b", clicks: [] });
    answering(%d);
    await client().flush();
    await client().feedback({ slate: "c", clicks: [] }).catch(() => undefined);
    console.log(JSON.stringify(kept()));
    """
    assert in_node(built, program % status) == ["a", "b", "c"]


def test_clients_with_other_keys_have_reports_of_their_own(built):
    program = """
    await keep("key-a", { slate: "a", clicks: [] }); await keep("key-b", { slate: "b", clicks: [] });
    const sent = answering(200);
    await client("key-a").flush();
    const left = kept();
    await client("key-b").flush();
    console.log(JSON.stringify([left, kept(), [...new Set(sent.map(String))]]));
    """
    assert in_node(built, program) == [["b"], [], ["Bearer key-a,a", "Bearer key-b,b"]]


def test_storage_is_not_filled_by_what_can_never_be_delivered(built):
    program = """
    await keep("", { slate: "a", clicks: [] });
    const [name, text] = Object.entries(storage.entries)[0];
    for (let n = 0; n < 999; n++) storage.setItem(name + n, text);
    await keep("", { slate: "one more", clicks: [] });
    console.log(storage.length);
    """
    assert in_node(built, program) == 1_000


def test_npm_pack_makes_a_package_of_the_client_alone(built):
    command = ["npm", "pack", "--json", "--dry-run", "--ignore-scripts"]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=120, check=True)
    names = {file["path"] for file in json.loads(done.stdout)[0]["files"]}
    assert {"package.json", "README.md"} <= names
    assert all(name.startswith("dist/") for name in names - {"package.json", "README.md", "LICENSE"})

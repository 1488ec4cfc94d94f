"""The pages in a real browser: what a person sees and does, and what happens on a mistake."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from playwright.sync_api import expect
from tests.dashboard.running import STRANGE, Server, ranker, use
from tests.serving.running import serving, until

import recurrank as rr
from recurrank.catalogue import Catalogue
from recurrank.serving import auth
from recurrank.serving.demo import Truth


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('store')}/x.db", truths={"films": Truth([0.5, 0.3, 0.2])})
    with httpx.Client(base_url=running.url, timeout=60) as http:
        http.put("/v1/rankers/films", json=ranker(ids=[*STRANGE, *(f"Item {n:03}" for n in range(80))]))
        use(http, "films", 30)
        until(lambda: running.service.hosted("films").fold.counts["learned"] == 30)
    yield running
    running.stop()


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


DRAWN = ".js-plotly-plot .main-svg"
"""A chart that plotly has drawn."""


def names(server) -> list[str]:
    return server.service.names()


def test_the_demo_shows_a_ranking_being_learned(open_page, said):
    with serving("--demo") as (_, url):
        page = open_page()
        page.goto(url)
        expect(page.locator("#rankers tr")).to_have_count(3)
        expect(page.get_by_text("Simulated visitors are looking")).to_be_visible()
        page.get_by_role("link", name="Watch").click()
        expect(page.locator("#connection")).to_have_text("live")
        expect(page.locator("#flow svg rect.box").first).to_be_visible()
        expect(page.locator("#ranking tr")).to_have_count(5)
        expect(page.locator("#fact-perfect")).to_contain_text("a perfect ranking's 2.34")
        for chart in ("#curve", "#by-position"):
            expect(page.locator(f"{chart}{DRAWN}").first).to_be_visible(timeout=20_000)
            expect(page.locator(chart)).to_contain_text("a perfect ranking")
        before = page.locator("#fact-learned").inner_text()
        expect(page.locator("#fact-learned")).not_to_have_text(before)
        expect(page.locator("#events tr")).to_have_count(20)
    assert said == [] or all("ERR_" in line for line in said)  # the server has gone


def test_a_ranker_of_requests_shows_what_it_believes_and_takes_a_request(server, http, open_page, said):
    shop = ranker(ids=[*STRANGE, "plain"], algorithm="anchored")
    assert http.put("/v1/rankers/shop", json=shop).status_code == 200
    assert http.put("/v1/rankers/free", json={"algorithm": "anchored", "positions": 2, "dim": 2}).status_code == 200
    for number in range(40):
        slate = http.post("/v1/rankers/shop/rank", json={"segment": "<b>phone</b>", "candidates": STRANGE}).json()["slate"]
        http.post("/v1/feedback", json=[{"slate": slate, "clicks": [number % 3]}])
    assert http.patch("/v1/rankers/shop/items", json={"remove": ["plain"]}).json()["removed"] == 1
    until(lambda: server.service.hosted("shop").fold.counts["learned"] == 40)
    page = open_page()
    page.goto(f"{server.url}/rankers/shop")
    page.locator("body[data-complete]").wait_for()
    expect(page.locator("#coefficients tr")).to_have_count(4)
    expect(page.locator("#segment")).to_have_value("<b>phone</b>")
    expect(page.locator(f"#examination{DRAWN}").first).to_be_visible(timeout=20_000)
    expect(page.locator("#examination-rows tr")).to_have_count(3)
    expect(page.locator("#fact-guard")).to_have_text(re.compile("on|off"))
    expect(page.locator("#fact-candidates-ever")).to_contain_text("8.00 over all slates")
    expect(page.locator("#flow-title")).to_be_hidden()
    expect(page.locator("#ranking tr")).to_have_count(3)
    page.get_by_role("button", name="Rank").click()
    expect(page.locator("#try-items li")).to_have_count(3)
    expect(page.locator("#try-said")).to_contain_text("it knows the log up to event")
    assert said == []
    for wrong, complaint in (('{"candidates": ["plain"]}', "'plain' is not an item"), ("{", "Not JSON")):
        page.locator("#try-body").fill(wrong)
        page.get_by_role("button", name="Rank").click()
        expect(page.locator("#try-form-error")).to_contain_text(complaint)
        expect(page.locator("#try-items li")).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    assert [line for line in said if "400" not in line] == []
    said.clear()
    page.goto(f"{server.url}/rankers/free")
    page.locator("body[data-complete]").wait_for()
    expect(page.locator("#ranking-title")).to_be_hidden()
    page.get_by_role("button", name="Rank").click()
    expect(page.locator("#try-items li")).to_have_count(2)
    assert said == []
    for name in ("shop", "free"):
        assert http.delete(f"/v1/rankers/{name}").status_code == 204


def test_ids_are_text_whatever_is_in_them(server, open_page, said):
    page = open_page()
    page.goto(f"{server.url}/rankers/films")
    page.locator("body[data-complete]").wait_for()
    for name in STRANGE:
        page.locator("#item-search").fill(" ".join(name.split())[:9])
        expect(page.locator("#items th").filter(has_text=name.split("\n")[0].strip()).first).to_be_visible()
    shown = page.locator("#ranking").inner_text() + page.locator("#events").inner_text()
    assert shown
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img, #items svg").count() == 0
    assert said == []


def test_the_table_of_items_is_searched_sorted_and_paged(server, open_page, said):
    page = open_page()
    page.goto(f"{server.url}/rankers/films")
    total, first = page.locator("#items-total"), page.locator("#items tr").first
    expect(total).to_have_text("88 in all, page 1 of 4")
    page.locator("#items-after").click()
    expect(total).to_have_text("88 in all, page 2 of 4")
    page.locator("#item-search").fill("item 01")
    expect(total).to_have_text("10 found")
    page.get_by_role("button", name="Item", exact=True).click()
    expect(first).to_contain_text("Item 010")
    expect(page.locator("th[data-sort=id]")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Item", exact=True).click()
    expect(first).to_contain_text("Item 019")
    page.locator("#item-search").fill("no such thing")
    expect(total).to_have_text("0 found")
    assert said == []


def test_feedback_arrives_on_the_page(server, open_page, http, said):
    page = open_page()
    page.goto(f"{server.url}/rankers/films")
    page.locator("body[data-complete]").wait_for()
    learned = server.service.hosted("films").fold.counts["learned"]
    use(http, "films", 2)
    expect(page.locator("#fact-learned")).to_have_text(str(learned + 2))
    assert said == []


def test_more_tabs_than_a_browser_has_connections(server, open_page, http, said):
    """Six to a server: tabs that look at the same ranker share one, and another takes over when its tab is closed."""
    pages = [open_page()]
    without = {"body": "", "content_type": "text/javascript"}  # no charts, which saves seconds a tab
    pages[0].context.route("**/plotly.min.js", lambda route: route.fulfill(**without))
    pages += [pages[0].context.new_page() for _ in range(6)]
    for page in pages:
        page.goto(f"{server.url}/rankers/films")
    for page in pages:
        page.locator("body[data-complete]").wait_for()
    pages.pop(0).close()
    learned = server.service.hosted("films").fold.counts["learned"]
    use(http, "films", 1)
    for page in pages:
        expect(page.locator("#fact-learned")).to_have_text(str(learned + 1))
    assert said == []


def test_a_ranker_is_made_from_a_file_and_deleted(server, open_page, tmp_path, said):
    page, before = open_page(), names(server)
    page.goto(f"{server.url}/new")
    make, error = page.locator("#create"), page.locator("#file-error")

    def give(name: str, content: str) -> None:
        (tmp_path / name).write_text(content, encoding="utf-8")
        page.locator("#file").set_input_files(tmp_path / name)

    make.click()
    expect(error).to_have_text("Choose a file first.")
    give("items.txt", "x")
    expect(error).to_contain_text("ends in .csv, .parquet or .npy")
    give("items.csv", "id,x,y\na,1,2\nb,oops,3\n")
    expect(error).to_contain_text("row 3, column 'x': 'oops' is not a number")
    give("twice.csv", "id,x,y\na,1,2\na,2,3\n")
    expect(error).to_contain_text("'a' is the id of item 0 already")
    rows = [f'"{name}",note,{n % 3},{n % 5},1' for n, name in enumerate([*(s.replace('"', '""') for s in STRANGE), "plain"])]
    give("sound.csv", "\n".join(["id,comment,x,y,z", *rows]))
    expect(page.locator("#preview-about")).to_contain_text("9 items with 3 features each; named by the column “id”")
    expect(page.locator("#preview-about")).to_contain_text("Not used: comment")
    expect(page.locator("#preview-body tr")).to_have_count(5)
    expect(page.locator("#preview-body")).to_contain_text("<script>")
    for field, wrong, told in [
        ("name", "no spaces", "1 to 64 letters"),
        ("name", "films", "another ranker called 'films'"),
        ("positions", "many", "Expected `int`"),
        ("positions", "10", "10 is more than the 9 items"),
        ("rounds", "0", "Expected `int` >= 1"),
        ("window_seconds", "-1", "> 0"),
    ]:
        good = {"name": "fresh", "positions": "3", "rounds": "1000", "window_seconds": "60"}
        for name, value in {**good, field: wrong}.items():
            page.locator(f"#{name}").fill(value)
        make.click()
        expect(page.locator(f"#{field}-error")).to_contain_text(told)
        expect(page.locator(f"#{field}")).to_have_attribute("aria-invalid", "true")
        assert names(server) == before
    page.locator("#window_seconds").fill("60")
    expect(page.locator('[name="balanced.delta"]')).to_be_visible()
    page.locator("#algorithm").select_option("random")
    expect(page.locator("#no-options")).to_be_visible()
    page.locator("#algorithm").select_option("recurrank")
    expect(page.locator('[name="balanced.delta"]')).to_be_hidden()
    delta = page.locator('[name="recurrank.delta"]')
    delta.fill("2")
    make.click()
    expect(page.locator('[id="recurrank.delta-error"]')).to_contain_text("2 is out of range")
    expect(delta).to_have_attribute("aria-invalid", "true")
    delta.fill("0.01")
    page.locator('[name="recurrank.design"]').select_option("spanner")
    make.click()
    page.wait_for_url("**/rankers/fresh")
    assert server.service.hosted("fresh").spec.options == {"delta": 0.01, "design": "spanner"}
    expect(page.locator("#ranking tr")).to_have_count(3)

    delete = page.get_by_role("button", name="Delete …")
    delete.click()
    page.keyboard.press("Escape")
    expect(page.locator("#delete-dialog")).not_to_be_visible()
    delete.click()
    page.locator("#delete-name").fill("films")
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("#delete-error")).to_contain_text("Nothing was deleted")
    assert "fresh" in names(server)
    page.locator("#delete-name").fill("fresh")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/")
    assert names(server) == before
    assert all("status of 4" in line for line in said)  # what was refused, which the browser notes


def test_state_and_log_can_be_had(server, open_page, said):
    page = open_page(accept_downloads=True)
    page.goto(f"{server.url}/rankers/films")
    page.locator("body[data-complete]").wait_for()
    with page.expect_download() as state:
        page.get_by_role("link", name="Download state").click()
    hosted = server.service.hosted("films")
    saved = state.value.path().read_bytes()
    assert rr.load(saved, Catalogue(hosted.catalogue.features, hosted.catalogue.ids)).served == hosted.fold.counts["served"]
    with page.expect_download() as log:
        page.get_by_role("link", name="Download log").click()
    lines = log.value.path().read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["kind"] for line in lines} == {"created", "served", "learned"}
    assert log.value.suggested_filename == "films.ndjson"
    assert said == []


def test_a_key_is_asked_for_where_there_are_keys(open_page, tmp_path):
    keys = auth.KeyFile(tmp_path / "x.keys")
    secrets = {role: auth.create(keys, role, [role]) for role in ("rank", "admin")}
    server = Server(f"sqlite:///{tmp_path}/x.db", keys)
    try:
        admin = {"authorization": f"Bearer {secrets['admin']}"}
        httpx.put(f"{server.url}/v1/rankers/films", json=ranker(), headers=admin, timeout=60).raise_for_status()
        page = open_page(accept_downloads=True)
        page.goto(f"{server.url}/rankers/films")
        key = page.get_by_label("Key with the role admin")
        expect(key).to_be_visible()
        for wrong in ("rk_wrong", secrets["rank"]):
            key.fill(wrong)
            key.press("Enter")
            expect(page.locator("#key-error")).to_contain_text("not known here")
            expect(key).to_be_visible()
            expect(page.locator("#ranking tr")).to_have_count(0)
        key.fill(secrets["admin"])
        key.press("Enter")
        expect(page.locator("#ranking tr")).to_have_count(3)
        expect(key).not_to_be_visible()
        expect(page.locator("#items tr")).to_have_count(25)
        with page.expect_download() as state:
            page.get_by_role("link", name="Download state").click()
        assert state.value.path().stat().st_size > 100
        page.goto(f"{server.url}/")
        expect(page.locator("#rankers tr")).to_have_count(1)
        page.get_by_role("button", name="Forget it").click()
        expect(key).to_be_visible()
    finally:
        server.stop()


def test_a_simulation_runs_is_shared_and_can_be_had(server, open_page, said):
    page = open_page(accept_downloads=True)
    page.goto(f"{server.url}/playground?items=200&rounds=20000&rankers=recurrank,random&clicks=cascade&positions=4")
    run = page.locator("#run")
    run.click()
    page.locator("body[data-run=done]").wait_for(timeout=90_000)
    expect(page.locator("#results tr")).to_have_count(2)
    assert page.locator("#results tr td:nth-child(2)").all_inner_texts() == ["20,000", "20,000"]
    expect(page.locator("#regret.js-plotly-plot .scatterlayer .trace")).to_have_count(2)
    assert page.locator("#flow svg rect.box").count() > 1
    files = {}
    for button in ("CSV", "JSON", "SVG", "PNG"):
        with page.expect_download() as given:
            page.locator(f"#get-{button.lower()}").click()
        files[button] = given.value.path().read_bytes()
    assert files["CSV"].startswith(b"ranker,rounds,regret,clicks\nrecurrank,")
    assert json.loads(files["JSON"])["curves"]["recurrank"]["rounds"][-1] == 20_000
    assert b"<svg" in files["SVG"][:400]
    assert files["PNG"].startswith(b"\x89PNG")

    page.locator("#problem").select_option("movielens")
    expect(page.locator("#items")).not_to_be_visible()
    page.locator("#clicks").select_option("click-chain")
    page.locator("#ccm_alpha1").fill("0.5")
    page.locator("#rounds").fill("20000000")
    page.locator("#rounds").blur()
    address = page.url
    assert "problem=movielens" in address
    assert "ccm_alpha1=0.5" in address
    assert "items=" not in address
    other = open_page()
    other.goto(address)  # what another person sees
    for field, value in {"problem": "movielens", "clicks": "click-chain", "ccm_alpha1": "0.5", "rounds": "20000000"}.items():
        expect(other.locator(f"#{field}")).to_have_value(value)
    assert other.locator("[name=rankers]:checked").evaluate_all("all => all.map(one => one.value)") == ["recurrank", "random"]

    run.click()  # too long: stopped
    page.locator("#stop").click()
    expect(page.locator("#play-said")).to_have_text("Stopped.")
    for field, wrong, told in [
        ("rounds", "many", "whole number"),
        ("positions", "0", "1 to 100"),
        ("ccm_alpha1", "2", "0 to 1"),
    ]:
        good = page.locator(f"#{field}").input_value()
        page.locator(f"#{field}").fill(wrong)
        run.click()
        expect(page.locator(f"#{field}-error")).to_contain_text(told)
        page.locator(f"#{field}").fill(good)
    for name in ("random", "recurrank"):
        page.get_by_label(name, exact=True).uncheck()
    run.click()
    expect(page.locator("#rankers-error")).to_contain_text("Choose 1 to 6")
    bad = open_page()
    bad.goto(f"{server.url}/playground?positions=<b>&rankers=nobody&colour=red")
    expect(bad.locator("#positions-error")).to_contain_text("whole number")
    expect(bad.locator("#rankers-error")).to_contain_text("'nobody' is not a ranker")
    expect(bad.locator("#play-form-error")).to_contain_text("'colour' is not a setting")
    assert all("status of 400" in line for line in said)


def pages(url: str):
    return {
        "list": f"{url}/",
        "ranker": f"{url}/rankers/films",
        "new": f"{url}/new",
        "playground": f"{url}/playground?items=100&rounds=2000&rankers=recurrank,random&clicks=cascade",
        "none": f"{url}/rankers/x",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_for_axe(server, open_page, axe, tmp_path, scheme):
    """Every page, with what it shows when it is used."""
    page = open_page(scheme, bypass_csp=True)  # axe is put in as a script
    for name, address in pages(server.url).items():
        page.goto(address)
        if name == "ranker":
            page.locator(f"#curve{DRAWN}").first.wait_for()
            page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
        if name == "list":
            page.locator("#rankers tr").first.wait_for()
        if name == "new":
            (tmp_path / "items.csv").write_text("id,x\na,1\nb,2\n")
            page.locator("#file").set_input_files(tmp_path / "items.csv")
            page.locator("#preview").wait_for()
            page.locator("#create").click()
            page.locator("#name[aria-invalid]").wait_for()
        if name == "playground":
            page.locator("#run").click()
            page.locator("body[data-run=done]").wait_for(timeout=90_000)
        page.evaluate(axe)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")
        bad = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        told = [(v["id"], [node["html"][:150] for node in v["nodes"][:3]]) for v in bad]
        assert told == [], (name, scheme)
    if scheme == "light":
        page.goto(pages(server.url)["ranker"])
        page.locator("body[data-complete]").wait_for()
        page.locator("#delete").click()
        page.evaluate(axe)
        assert [v["id"] for v in page.evaluate("axe.run('#delete-dialog')")["violations"]] == []


@pytest.mark.parametrize("width", [360, 1600])
def test_pages_fit_the_window(server, open_page, said, width):
    page = open_page(width=width)
    for name, address in pages(server.url).items():
        page.goto(address)
        if name == "ranker":
            page.locator(f"#curve{DRAWN}").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert [line for line in said if not re.search("status of 404", line)] == []


def test_all_can_be_reached_by_keyboard(server, open_page):
    page = open_page()
    page.goto(f"{server.url}/")
    page.locator("#rankers a").first.wait_for()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
    assert {"search", "films", "Name"} <= reached
    page.get_by_role("link", name="films").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/rankers/films")

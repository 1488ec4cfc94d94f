"""How the pages look in narrow and wide windows, and what they say while the server is away."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import expect
from tests.dashboard.running import Server, ranker, use
from tests.serving.running import serving, until

from recurrank.serving.demo import Truth

PAGES = ("/", "/rankers/films", "/rankers/phased", "/rankers/shop", "/new", "/playground")
CUT_OFF = """() => [...document.querySelectorAll("main p, main dd, main dt")]
  .filter((one) => one.closest(".scroll, .flow") || one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML)"""
"""Sentences that are wider than what shows them, or would scroll out of sight with a table."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    truths = {"films": Truth([0.5, 0.3, 0.2]), "shop": Truth([0.5, 0.3, 0.2], ["cheap", "good", "new"], ["in a hurry"])}
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('store')}/x.db", truths=truths)
    of_requests = {"algorithm": "anchored", "options": {"context": 1, "interactions": "outer"}}
    with httpx.Client(base_url=running.url, timeout=60) as http:
        http.put("/v1/rankers/films", json=ranker())
        http.put("/v1/rankers/phased", json=ranker(algorithm="recurrank"))
        http.put("/v1/rankers/shop", json=ranker(**of_requests))
        use(http, "films", 30)
        until(lambda: running.service.hosted("films").fold.counts["learned"] == 30)
    yield running
    running.stop()


def opened(page, server, path: str):
    without = {"body": "", "content_type": "text/javascript"}  # no charts, which saves seconds per page
    page.context.route("**/plotly.min.js", lambda route: route.fulfill(**without))
    page.goto(f"{server.url}{path}")
    if path == "/":
        page.locator("#rankers tr").first.wait_for()
    if path.startswith("/rankers/"):
        page.locator("body[data-version]").wait_for()
    return page


def left(page, selector: str) -> float:
    return page.locator(selector).first.bounding_box()["x"]


def right(page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    return box["x"] + box["width"]


@pytest.mark.parametrize("width", [390, 1440])
def test_no_sentence_is_cut_off_and_a_position_is_called_one(server, open_page, width):
    page = open_page(width=width)
    for path in PAGES:
        opened(page, server, path)
        assert page.evaluate(CUT_OFF) == [], path
        assert page.locator("caption").count() == 0, path
        assert not re.search(r"\bplaces?\b", page.locator("body").text_content(), re.IGNORECASE), path
        assert left(page, ".brand") == left(page, "h1, main p.small"), path
    links = page.locator("nav a").evaluate_all("all => all.map((one) => one.getBoundingClientRect().top)")
    assert len(set(links)) == 1


def test_a_phone_shows_first_what_matters_most(server, open_page):
    page = opened(open_page(width=390), server, "/")
    row = "#rankers tr:first-child"
    for cell in (f"{row} .pill", f"{row} td:nth-child(3)"):  # health, and clicks per slate now
        assert right(page, cell) <= right(page, ".scroll")
    assert left(page, "#search") == left(page, "label[for=search]")
    shadow = page.locator(".scroll").first.evaluate("one => getComputedStyle(one).backgroundAttachment")
    assert shadow.count("local") == shadow.count("scroll") == 2
    opened(page, server, "/rankers/films")
    assert page.locator("#events tr:visible").count() == 5
    assert {box["height"] < 40 for box in (row.bounding_box() for row in page.locator("#events tr:visible").all())} == {True}
    assert page.evaluate("document.documentElement.scrollHeight") < 6_500


def test_the_chart_explains_what_it_draws(server, open_page):
    page = opened(open_page(), server, "/rankers/films")  # balanced keeps no history
    expect(page.locator("#flow-title")).to_have_text("What competes now")
    expect(page.locator("#flow svg rect.box").first).to_be_visible()
    assert page.locator("#flow .arrow").count() == 0  # neither an axis nor parents
    assert page.locator("#flow-card :text('opened'):visible, #flow-card :text('has split'):visible").count() == 0
    expect(page.locator("#fact-perfect")).to_have_text("± 0.000, last 1,000 slates; within chance of a perfect ranking's 1.00")
    opened(page, server, "/rankers/phased")
    expect(page.locator("#flow-title")).to_have_text("How it got here")
    assert page.locator("#flow .arrow").count() > 0
    assert page.locator("#flow-card :text('has split'):visible").count() == 1
    opened(page, server, "/rankers/shop")  # no blocks
    expect(page.locator("#flow-card")).to_be_hidden()
    products = [f"{feature} \u00d7 in a hurry" for feature in ("cheap", "good", "new")]
    named = ["constant", "cheap", "good", "new", "in a hurry", *products]
    assert page.locator("#coefficients th").all_inner_texts() == named


def test_buttons_keep_clear_of_the_fields_above(server, open_page):
    page = opened(open_page(), server, "/rankers/shop")
    page.locator("#delete").click()
    for above, button in (("#delete-name", ".danger:text('Delete it')"), ("#try-body", "#try-form button")):
        field, below = (page.locator(one).bounding_box() for one in (above, button))
        assert below["y"] - field["y"] - field["height"] >= 8


def test_the_playground_begins_with_its_form_alone(server, open_page):
    page = opened(open_page(width=1440), server, "/playground?items=50&rounds=500&positions=3&rankers=recurrank,balanced")
    expect(page.locator("#play-results")).to_be_hidden()
    assert page.locator("#logarithmic").is_checked()
    page.locator("#run").click()
    page.locator("body[data-run=done]").wait_for(timeout=90_000)
    table = page.locator("#play-results .scroll").first
    assert table.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    tops = [page.locator(f"#get-{one}").bounding_box()["y"] for one in ("csv", "json", "svg", "png")]
    assert len(set(tops)) == 1
    page.locator("#problem").select_option("requests")
    assert page.locator(".group:visible").count() == 4
    assert page.locator("[name=rankers]:visible").count() == 6


def test_a_server_that_is_away_is_not_called_healthy(tmp_path, open_page):
    server = Server(f"sqlite:///{tmp_path}/x.db")
    try:
        httpx.put(f"{server.url}/v1/rankers/films", json=ranker(), timeout=60).raise_for_status()
        page = opened(open_page(), server, "/")
        expect(page.locator("#server-learning")).to_have_text("learns")
        server.disconnect()
        expect(page.locator("#server-learning")).to_have_text("does not answer")
        expect(page.locator("#server-wrong")).to_have_text(
            re.compile(r"The server does not answer\. What you see is as of \d\d:\d\d:\d\d\.")
        )
        assert float(page.locator("table").first.evaluate("one => getComputedStyle(one).opacity")) < 1
        server.connect()
        expect(page.locator("#server-learning")).to_have_text("learns")
        expect(page.locator("#server-wrong")).to_be_hidden()
        expect(page.locator("body")).not_to_have_class(re.compile("stale"))
    finally:
        server.stop()


def test_a_stream_that_breaks_off_is_told_in_words(tmp_path, open_page):
    with serving("--store", f"sqlite:///{tmp_path}/x.db") as (process, url):
        httpx.put(f"{url}/v1/rankers/films", json=ranker(), timeout=60).raise_for_status()
        page = open_page()
        page.goto(f"{url}/rankers/films")
        expect(page.locator("#connection")).to_have_text("live")
        play = page.context.new_page()
        play.goto(f"{url}/playground?rounds=20000000&rankers=recurrank&items=500&positions=100")
        play.locator("#run").click()
        expect(play.locator("#play-said")).to_have_text("Running …", timeout=60_000)
        process.kill()
        expect(page.locator("#connection")).to_have_text(re.compile(r"connection lost, trying again; as of \d\d:\d\d:\d\d"))
        expect(play.locator("#play-form-error")).to_have_text("The server does not answer.")

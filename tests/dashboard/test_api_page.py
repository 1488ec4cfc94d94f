"""The API page in a real browser: it is complete, it complains about nothing, and what it sends reaches the server."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import expect
from tests.dashboard.running import Server

from recurrank.dashboard.pages import HEADERS
from recurrank.serving import auth

ANSWERED = ".live-responses-table tr.response .response-col_status"
"""The status that a request was answered with."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('store')}/x.db")
    yield running
    running.stop()


def test_the_page_has_the_policy_of_all_pages_and_every_file_is_served_here(server):
    page = httpx.get(f"{server.url}/docs")
    assert page.headers["content-security-policy"] == HEADERS["content-security-policy"]
    assert "http://" not in page.text.replace("http://www.w3.org", "")
    assert "https://" not in page.text


def test_the_examples_can_be_tried(server, open_page, said):
    page = open_page()
    page.goto(f"{server.url}/docs")
    page.locator("body[data-complete]").wait_for()
    expect(page.locator(".opblock")).to_have_count(16)
    for operation in ("rankers-create_ranker", "slates-rank", "slates-feedback"):
        block = page.locator(f"#operations-{operation}")
        block.locator(".opblock-summary-control").click()
        block.locator(".try-out__btn").click()
        block.locator(".execute").click()
        expect(block.locator(ANSWERED).first).to_contain_text("200", timeout=60_000)
    assert server.service.names() == ["films"]
    assert said == []


def test_where_there_are_keys_the_page_asks_for_one_and_sends_it(open_page, tmp_path):
    keys = auth.KeyFile(tmp_path / "x.keys")
    secret = auth.create(keys, "me", ["admin"])
    server = Server(f"sqlite:///{tmp_path}/x.db", keys)
    try:
        page = open_page()
        page.goto(f"{server.url}/docs")
        expect(page.locator("#api-error")).to_contain_text("authorization")
        page.get_by_label("Key with the role admin").fill(secret)
        page.get_by_label("Key with the role admin").press("Enter")
        block = page.locator("#operations-rankers-list_rankers")
        block.locator(".opblock-summary-control").click()
        block.locator(".try-out__btn").click()
        block.locator(".execute").click()
        expect(block.locator(ANSWERED).first).to_contain_text("200")
    finally:
        server.stop()

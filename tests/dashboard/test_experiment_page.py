"""The experiment panel of a page in a real browser: both arms, the interval, the verdict, the brake and its release."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import expect
from tests.dashboard.running import Server, ranker
from tests.serving.running import until

BASELINE = ["item 001", "item 002", "item 003"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(f"sqlite:///{tmp_path_factory.mktemp('store')}/x.db")
    yield running
    running.stop()


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as client:
        client.put("/v1/rankers/shop", json=ranker(items=8, rollout={"mode": "shadow"}))
        yield client


def visit(http, numbers, clicked) -> dict:
    """Visitors who each click on the first item where ``clicked`` says so of their arm; the experiment when that is counted."""
    before = compared(http)
    reports = []
    for n in numbers:
        shown = http.post("/v1/rankers/shop/rank", json={"baseline": BASELINE, "subject": f"visitor {n}"}).json()
        reports.append({"slate": shown["slate"], "clicks": [0] if clicked(shown["arm"]) else []})
    http.post("/v1/feedback", json=reports)
    until(lambda: compared(http) == before + len(reports) or experiment(http)["stopped"] is not None)
    return experiment(http)


def experiment(http) -> dict:
    return http.get("/v1/rankers/shop/experiment").json()


def compared(http) -> int:
    return sum(experiment(http)[arm]["slates"] for arm in ("baseline", "ranker"))


def rows(page) -> list[list[str]]:
    return [row.locator("th, td").all_inner_texts() for row in page.locator("#experiment-arms tr").all()]


def test_a_share_is_set_compared_stopped_and_released(server, http, open_page, said):
    page = open_page()
    page.goto(f"{server.url}/rankers/shop")
    page.locator("body[data-complete]").wait_for()
    expect(page.locator("#experiment-verdict")).to_have_text("everybody gets the baseline")

    page.locator("#experiment-mode").select_option("share")
    page.locator("#experiment-share").fill("50")
    page.locator("#experiment-form").get_by_role("button", name="Apply").click()
    expect(page.locator("#experiment-said")).to_contain_text("a new comparison begins")
    assert (experiment(http)["mode"], experiment(http)["share"]) == ("share", 0.5)
    expect(page.locator("#brake-armed")).to_contain_text("more than 5 % fewer clicks than the baseline, at alpha = 0.05.")

    seen = visit(http, range(20), lambda arm: arm == "ranker")  # both arms, and what is known about them
    expect(page.locator("#experiment-arms tr").nth(1).locator("td").first).to_have_text(str(seen["ranker"]["slates"]))
    slates = seen["baseline"]["slates"], seen["ranker"]["slates"]
    assert [row[:3] for row in rows(page)] == [
        ["Baseline", str(slates[0]), "0"],
        ["Ranker", str(slates[1]), str(slates[1])],
    ]
    low, high = f"{seen['low']:+.4f}", f"{seen['high']:+.4f}"
    expect(page.locator("#experiment-difference")).to_have_text(f"+1.0000 ({low} to {high})")
    expect(page.locator("#experiment-verdict")).to_have_text("not decided yet")
    expect(page.locator("#experiment-chart.js-plotly-plot .main-svg").first).to_be_visible()
    expect(page.locator("#brake-stopped")).to_be_hidden()

    page.locator("#experiment-share").fill("60")  # another comparison, which goes badly
    page.locator("#experiment-form").get_by_role("button", name="Apply").click()
    until(lambda: experiment(http)["share"] == 0.6)
    first = 20
    while experiment(http)["stopped"] is None:
        visit(http, range(first, first + 60), lambda arm: arm == "baseline")
        first += 60
        assert first < 1_000
    expect(page.locator("#experiment-verdict")).to_have_text("the baseline has more clicks")
    expect(page.locator("#brake-why")).to_have_text(
        re.compile(
            r"The brake has gone back to the baseline: the ranker has 0\.0000 clicks per slate .* until it is released\."
        )
    )
    assert visit(http, range(5), lambda _: False)["stopped"] is not None

    page.get_by_role("button", name="Release the brake").click()
    expect(page.locator("#brake-stopped")).to_be_hidden()
    until(lambda: experiment(http)["stopped"] is None)
    expect(page.locator("#experiment-arms tr").nth(1).locator("td").first).to_have_text("0")
    expect(page.locator("#experiment-verdict")).to_have_text("not decided yet")

    http.patch("/v1/rankers/shop/experiment", json={"budget": 0.02})
    expect(page.locator("#brake-armed")).to_contain_text("The ranker has 2 % of the subjects now; it gets more as it is shown")
    expect(page.locator("#experiment-error")).to_have_text("")
    assert said == []

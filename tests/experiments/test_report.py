"""The report: whole, self-contained, true to the rows, and safe against what names can contain."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.experiments.made import made_result

from recurrank.experiments import paper
from recurrank.experiments.experiment import Experiment
from recurrank.experiments.figures import colours, dashes, pretty
from recurrank.experiments.report import Report, bounds, order_remark, tex_table, write_report
from recurrank.experiments.summary import summary
from recurrank.theory.bounds import upper_bound

FINAL = {
    "recurrank": 90_000.0,
    "recurrank:design=spanner": 70_000.0,
    "cascade-linucb": 200_000.0,
    "toprank": 700_000.0,
    "toprank:delta=T^-1": 900_000.0,
}
SPANNER = "RecurRank (design=spanner)"


def rows_of(experiments: list[Experiment]):
    return [made_result(e, FINAL[e.ranker] + 1000 * e.run) for e in experiments]


@pytest.fixture(scope="module")
def results():
    return rows_of(paper.suite(runs=2).experiments)


@pytest.fixture(scope="module")
def whole(results, tmp_path_factory):
    """The report of all environments, and the paths that were said to be written."""
    folder = tmp_path_factory.mktemp("report")
    return folder, write_report(folder, results, replace(paper.report(), elapsed=42.0))


class Page(HTMLParser):
    """Tags that must be closed, and addresses that the page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.fetched, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        self.fetched += [value for name, value in attrs if name == "src" or (tag == "link" and name == "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.text += data + " "


def test_everything_is_there_and_nothing_is_fetched(whole):
    folder, written = whole
    names = {path.name for path in folder.iterdir()}
    assert names == {path.name for path in written}
    assert names == {"report.html", "table.tex", "regret.png", "reproduce.txt"} | {
        f"regret-{name}.{ending}" for name in ("cascade", "position", "movielens") for ending in ("png", "pdf")
    }
    for path in folder.iterdir():
        start = {".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!doctype html>", ".txt": b"The paper"}.get(
            path.suffix, b"% needs"
        )
        assert path.read_bytes().startswith(start)
    page = Page()
    page.feed((folder / "report.html").read_text(encoding="utf-8"))
    page.close()
    assert page.open == []
    assert page.fetched == []
    text = " ".join(page.text.split())
    for shown in ("70,500", "68,943", "42.0 seconds", "ml-1m.zip, 10 splits", "TopRank (delta=T^-1)", "as in the paper"):
        assert shown in text, shown


def test_the_same_results_give_the_same_bytes(whole, results, tmp_path):
    write_report(tmp_path, results, replace(paper.report(), elapsed=42.0))
    for path in whole[0].iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_names_are_text_and_never_markup(tmp_path):
    experiment = paper.suite("cascade", "recurrank", runs=1).experiments[0]
    row = made_result(experiment)._replace(environment="<b>x</b></script>", data="<i>&")
    write_report(tmp_path, [row], Report("<u>title", "a & b"))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<b>x" not in text.replace("\\/", "/").split("const charts")[0]
    assert "</script>" not in re.search(r"const charts = (.*);\n", text)[1]
    assert "<u>title" not in text
    assert "&lt;i&gt;&amp;" in text


def test_the_bound_is_theorem_1(results, tmp_path):
    bound = bounds(results)["position"]
    assert bound.regret[-1] == pytest.approx(upper_bound(10_000, 5, 10, 5_000_000))
    assert (bound.regret[1:] >= bound.regret[:-1]).all()
    write_report(tmp_path, of_position(results), paper.report())
    assert '"visible": "legendonly"' in (tmp_path / "report.html").read_text()
    plain = (tmp_path / "regret-position.png").read_bytes()
    write_report(tmp_path, of_position(results), replace(paper.report(), bound=True))
    assert '"visible": "legendonly"' not in (tmp_path / "report.html").read_text()
    assert (tmp_path / "regret-position.png").read_bytes() != plain


def of_position(results):
    return [row for row in results if row.environment == "position"]


def test_the_table_for_a_paper(results):
    table = tex_table(summary(results, paper.published()))
    assert r" & RecurRank (design=spanner) & 5{,}000{,}000 & 70{,}500 & 500 & 1.00 & 68{,}943 & 310 \\" in table
    assert r"TopRank (delta=T\textasciicircum{}-1)" in table
    assert table.count(r"\midrule") == 3
    alone = tex_table(summary(results))
    assert "paper" not in alone
    below = tex_table(
        [row._replace(regret_mean=-1234.5, environment="~\\x", optimum="best found") for row in summary(results)[:1]]
    )
    assert r"\textasciitilde{}\textbackslash{}x & " in below
    assert r" & $-$1{,}23" in below
    assert r"\\ {\footnotesize \textasciitilde{}" in below
    columns = alone.splitlines()[1].count("l") + alone.splitlines()[1].count("r")
    assert all(line.count("&") == alone.splitlines()[3].count("&") for line in alone.splitlines() if line.endswith(r"\\"))
    assert columns > 5


def test_a_regret_that_may_be_too_small_is_marked_everywhere(results, tmp_path):
    doubtful = [row._replace(optimum="best found") if row.environment == "position" else row for row in results]
    rows = summary(doubtful)
    assert {row.environment for row in rows if row.optimum != "exact"} == {"position"}
    assert tex_table(rows).count("position: regret is against the best ranking found") == 1
    assert "best ranking found" not in tex_table(summary(results))
    write_report(tmp_path, of_position(doubtful), paper.report())
    page = (tmp_path / "report.html").read_text()
    assert page.count("position: regret is against the best ranking found") == 1


def test_order_is_told_as_it_is(results):
    rows = [row for row in summary(results, paper.published()) if row.environment == "position"]
    assert (
        order_remark(rows) == "From least to most regret: RecurRank (design=spanner), CascadeLinUCB, TopRank, as in the paper."
    )
    swapped = [rows[0], rows[1]._replace(regret_mean=1e9), *rows[2:]]
    assert order_remark(swapped).endswith(
        f"CascadeLinUCB, TopRank, {SPANNER}; in the paper: {SPANNER}, CascadeLinUCB, TopRank."
    )


def test_colours_tell_rankers_apart():
    rankers = ["recurrank", "recurrank:design=spanner", "toprank", "random", "pie", "linucb"]
    chosen, broken = colours(rankers), dashes(rankers)
    assert chosen["recurrank"] == chosen["recurrank:design=spanner"]
    assert len(set(zip(chosen.values(), broken.values(), strict=True))) == len(rankers)
    assert pretty("recurrank:design=spanner:delta=0.1") == "RecurRank (design=spanner, delta=0.1)"


def test_many_curves_leave_room_for_the_panel():
    """Thirty rankers: the seven that lose least have names, and one grey entry stands for all others."""
    from recurrank.experiments.figures import regret_figure
    from recurrank.experiments.summary import Curve

    rounds = np.arange(1, 11)
    curves = [Curve(f"ranker-{i}", rounds, rounds * float(30 - i), None) for i in range(30)]
    [panel] = regret_figure({"crowd": curves}).axes
    assert len(panel.lines) == 30
    said = [text.get_text() for text in panel.get_legend().get_texts()]
    assert said == ["23 others", *(f"ranker-{i}" for i in range(29, 22, -1))]
    [panel] = regret_figure({"few": curves[:3]}).axes
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["ranker-0", "ranker-1", "ranker-2"]


def test_a_bound_does_not_flatten_the_rankers():
    from recurrank.experiments.figures import BOUND, regret_figure
    from recurrank.experiments.summary import Curve

    rounds = np.arange(1, 11)
    curves = [Curve("random", rounds, rounds * 1.0, None), Curve(BOUND, rounds, rounds * 1e6, None)]
    with_bound, without = regret_figure({"a": curves, "b": curves[:1]}).axes
    assert (with_bound.get_yscale(), without.get_yscale()) == ("log", "linear")

"""Logs from files: every format gives the same pages, bad rows are named, imports are whole and go on."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recurrank.cli import main
from recurrank.logs import importing
from recurrank.logs.formats import joined, ubi
from recurrank.logs.importing import import_log
from recurrank.logs.reading import kind_of, read
from recurrank.logs.sessions import Counts, Sessions, pairs_of

PAGES = [("shoes", ["a", "b", "c"], [1, 0, 0]), ("hats", ["b", "d"], [0, 1]), ("shoes", ["c", "a", "b"], [0, 0, 0])]


def as_lists(path, pages=PAGES, **more):
    columns = {"query_id": [q for q, _, _ in pages], "doc_ids": [i for _, i, _ in pages], "clicks": [c for _, _, c in pages]}
    pq.write_table(pa.table({**columns, **more}), path)
    return path


def as_long(path, pages=PAGES, start=1):
    rows = ["session,query,item,position,click"]
    for number, (query, items, clicks) in enumerate(pages):
        rows += [f"{number},{query},{i},{k + start},{c}" for k, (i, c) in enumerate(zip(items, clicks, strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return path


def as_ubi(path, pages=PAGES):
    lines = []
    for number, (query, items, clicks) in enumerate(pages):
        lines.append({"query_id": str(number), "user_query": query, "query_response_hit_ids": items, "timestamp": "2024-01-01"})
        for place, (item, clicked) in enumerate(zip(items, clicks, strict=True), 1):
            if clicked:
                attributes = {"object": {"object_id": item}, "position": {"ordinal": place}}
                lines.append({"action_name": "click", "query_id": str(number), "event_attributes": attributes})
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def as_metarank(path, pages=PAGES):
    lines = []
    for number, (query, items, clicks) in enumerate(pages):
        fields, shown = [{"name": "query", "value": query}], [{"id": item} for item in items]
        lines.append({"event": "ranking", "id": str(number), "timestamp": "1700000000000", "fields": fields, "items": shown})
        for item, clicked in zip(items, clicks, strict=True):
            if clicked:
                lines.append({"event": "interaction", "type": "click", "ranking": str(number), "item": item})
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def as_events(path, pages=PAGES):
    rows = []
    for number, (query, items, clicks) in enumerate(pages):
        common = {"at": 1_700_000_000_000_000, "ranker": query}
        rows.append({**common, "seq": 3 * number, "kind": "served", "served": None, "items": items, "clicks": None})
        answer = {"kind": "learned", "served": 3 * number, "items": items, "clicks": [bool(c) for c in clicks]}
        rows.append({**common, "seq": 3 * number + 1, **answer})
        rows.append({**common, "seq": 3 * number + 2, "kind": "served", "served": None, "items": items, "clicks": None})
    table = pa.Table.from_pylist(rows)
    at = table.schema.names.index("at")
    pq.write_table(table.set_column(at, "at", table["at"].cast(pa.timestamp("us", tz="UTC"))), path)
    return path


FORMATS = {
    "lists": (as_lists, "log.parquet"),
    "long": (as_long, "log.csv"),
    "ubi": (as_ubi, "log.jsonl"),
    "metarank": (as_metarank, "log.jsonl"),
    "events": (as_events, "events.parquet"),
}


def pages_of(log: Sessions):
    found = []
    for row in range(len(log)):
        length = log.lengths[row]
        names = [log.item_ids[item] for item in log.items[row, :length]]
        found.append((log.query_ids[log.query[row]], names, log.clicks[row, :length].tolist()))
    return found


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_pages(kind, tmp_path):
    write, name = FORMATS[kind]
    source = write(tmp_path / name)
    assert kind_of(source) == kind
    assert pages_of(read(source)) == PAGES
    found = import_log([source], tmp_path / "out.parquet")
    assert (found.format, found.pages, found.bad) == (kind, 3, 0)
    assert pages_of(read(tmp_path / "out.parquet")) == PAGES
    assert not (tmp_path / "out.parquet.partial").exists()


def test_positions_may_begin_at_0_and_rows_be_in_any_order(tmp_path):
    path = as_long(tmp_path / "log.csv", start=0)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[3], lines[1], lines[2], *lines[4:]]))
    assert pages_of(read(path)) == PAGES


def test_times_propensities_and_joints_come_along(tmp_path):
    more = {"time": [10.0, 20.0, 15.0], "propensity": [[0.5] * 3, [0.25] * 2, [1.0] * 3], "joint": [0.1, 0.2, 0.3]}
    import_log([as_lists(tmp_path / "log.parquet", **more)], tmp_path / "out.parquet")
    log = read(tmp_path / "out.parquet")
    assert log.time.tolist() == [10, 20, 15]
    assert log.propensity[1].tolist() == [0.25, 0.25, 1]
    assert log.joint.tolist() == [0.1, 0.2, 0.3]
    early, late = log.split("time", share=1 / 3)
    assert (early.time.max(), late.time.tolist()) == (15, [20])


def test_counts_are_read_and_cannot_be_imported(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("query,url,position,impressions,clicks\nq,a,0,10,3\nq,b,1,10,1\n")
    counts = read(path)
    assert isinstance(counts, Counts)
    assert counts.impressions.tolist() == [10, 10]
    with pytest.raises(ValueError, match="cannot be turned into pages"):
        import_log([path], tmp_path / "out.parquet")
    path.write_text("query,url,position,impressions,clicks\nq,a,0,10,-3\n")
    with pytest.raises(ValueError, match="row 2, column 'clicks'"):
        read(path)


BAD_PAGES = [
    (("q", ["a", "b"], [1]), "row 2, column 'clicks': 1 values for 2 items"),
    (("q", ["a", "a"], [1, 0]), "row 2, column 'doc_ids': 'a' stands twice"),
    (("q", ["a", "b"], [2, 0]), "row 2, column 'clicks': 2 is neither 0 nor 1"),
    (("q", [], []), "row 2, column 'doc_ids': empty"),
    (("q", ["a", None], [1, 0]), "row 2, column 'doc_ids': an item is missing"),
    ((None, ["a"], [1]), "row 2, column 'query_id': missing"),
]


@pytest.mark.parametrize(("page", "said"), BAD_PAGES)
def test_a_bad_page_is_named_with_row_and_column(page, said, tmp_path):
    source = as_lists(tmp_path / "log.parquet", [PAGES[0], page, PAGES[1]])
    with pytest.raises(ValueError, match=said):
        import_log([source], tmp_path / "out.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.parquet"], "nothing half written"
    found = import_log([source], tmp_path / "out.parquet", skip_bad=True)
    assert (found.pages, found.bad) == (2, 1)
    assert said in found.complaints[0]
    assert pages_of(read(source, skip_bad=True)) == PAGES[:2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1,hats,b,x,0", "row 5, column 'position': 'x' is not a whole number"),
        ("1,hats,b,2,0", "row 6, column 'position': '2' stands twice on its page"),
        ("1,hats,b,1,7", "row 5, column 'click': '7' is neither 0 nor 1"),
        ("1,hats,b,1", "row 5: 4 cells, but the heading has 5"),
    ],
)
def test_a_bad_row_of_a_long_table_is_named(line, said, tmp_path):
    path = as_long(tmp_path / "log.csv")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], line, *lines[5:]]))
    with pytest.raises(ValueError, match=said):
        read(path)
    found = import_log([path], tmp_path / "out.parquet", skip_bad=True)
    assert found.pages == 2
    assert found.bad >= 1


@pytest.mark.parametrize("kind", ["ubi", "metarank"])
def test_garbage_lines_are_named_or_counted(kind, tmp_path):
    write, name = FORMATS[kind]
    path = write(tmp_path / name)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"broken', *lines[1:], "[1, 2]"]))
    with pytest.raises(ValueError, match="line 2: not a JSON object"):
        import_log([path], tmp_path / "out.parquet")
    found = import_log([path], tmp_path / "out.parquet", skip_bad=True)
    assert (found.pages, found.bad) == (3, 2)


def test_a_click_that_does_not_fit_its_page_is_named(tmp_path):
    path = as_ubi(tmp_path / "log.jsonl")
    path.write_text(path.read_text().replace('"ordinal": 1', '"ordinal": 3'))
    with pytest.raises(ValueError, match="line 1: a click on 'a' at position 3 does not fit the page '0'"):
        read(path)


def test_queries_and_events_of_ubi_may_be_two_files(tmp_path):
    lines = as_ubi(tmp_path / "log.jsonl").read_text().splitlines()
    (tmp_path / "queries.jsonl").write_text("\n".join(line for line in lines if "action_name" not in line))
    (tmp_path / "events.jsonl").write_text("\n".join(line for line in lines if "action_name" in line))
    import_log([tmp_path / "queries.jsonl", tmp_path / "events.jsonl"], tmp_path / "out.parquet")
    assert pages_of(read(tmp_path / "out.parquet")) == PAGES


@pytest.mark.parametrize("kind", ["lists", "events"])
def test_a_log_goes_to_ubi_and_back(kind, tmp_path):
    write, name = FORMATS[kind]
    assert ubi.write(write(tmp_path / name), tmp_path / "ubi.jsonl") == 3
    assert pages_of(read(tmp_path / "ubi.jsonl")) == PAGES


def test_a_stopped_import_goes_on(tmp_path, monkeypatch):
    """Ctrl-C after the first part: nothing at the target; the second run writes only the rest."""
    monkeypatch.setattr(joined, "SIZE", 1)
    source = as_ubi(tmp_path / "log.jsonl")

    def stop(pages):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_log([source], tmp_path / "out.parquet", progress=stop)
    assert not (tmp_path / "out.parquet").exists()
    written = []
    found = import_log([source], tmp_path / "out.parquet", progress=written.append)
    assert written == [2, 3]
    assert found.pages == 3
    assert pages_of(read(tmp_path / "out.parquet")) == PAGES


def test_a_changed_source_starts_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(joined, "SIZE", 1)
    source = as_ubi(tmp_path / "log.jsonl")
    with pytest.raises(KeyboardInterrupt):
        import_log([source], tmp_path / "out.parquet", progress=lambda pages: (_ for _ in ()).throw(KeyboardInterrupt()))
    as_ubi(source, PAGES[1:])
    assert import_log([source], tmp_path / "out.parquet").pages == 2


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("log.csv", "a,b\n1,2\n", "columns a, b; a log has"),
        ("log.jsonl", '{"a": 1}\n', "neither OpenSearch UBI nor Metarank"),
        ("log.csv", "", "neither Parquet nor CSV"),
    ],
)
def test_what_is_no_log_is_one_line(name, content, said, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=said):
        read(tmp_path / name)
    with pytest.raises(ValueError, match="no such file"):
        read(tmp_path / "none.parquet")


def test_the_command_imports_and_says_what_it_left_out(tmp_path, capsys):
    source = as_lists(tmp_path / "log.parquet", [*PAGES, ("q", ["a"], [5])])
    out = str(tmp_path / "out.parquet")
    with pytest.raises(SystemExit) as stopped:
        main(["log", "import", str(source), "--out", out])
    assert stopped.value.code == 2
    assert "row 4, column 'clicks': 5 is neither 0 nor 1" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["log", "import", str(source), "--out", out, "--skip-bad"])
    assert stopped.value.code == 0
    assert "3 pages (lists), 1 bad ones left out" in capsys.readouterr().out


@given(st.lists(st.tuples(st.integers(0, 3), st.permutations(range(5)).map(lambda p: p[:3])), min_size=1, max_size=20))
def test_pairs_number_every_query_and_item_once(pages):
    query = np.array([q for q, _ in pages], np.int32)
    items = np.array([i for _, i in pages], np.int32)
    log = Sessions(query, items, np.zeros(items.shape, np.uint8), list("wxyz"), list("abcde"))
    pairs, coded = pairs_of(log)
    assert len({(int(q), int(i)) for q, i in zip(pairs.query, pairs.item, strict=True)}) == len(pairs)
    np.testing.assert_array_equal(pairs.item[coded], items)
    np.testing.assert_array_equal(pairs.query[coded], np.broadcast_to(query[:, None], items.shape))


def test_only_a_few_complaints_are_kept(tmp_path):
    source = as_lists(tmp_path / "log.parquet", [PAGES[0], *[("q", ["a"], [5])] * 20])
    found = import_log([source], tmp_path / "out.parquet", skip_bad=True)
    assert (found.bad, len(found.complaints)) == (20, importing.SHOWN)


HEADING = "session,query,item,position,click"


@pytest.mark.parametrize(
    "content",
    [
        "click,position,item,query,session\n0,1,a,q,7\n1,2,b,q,7\n",
        "session;query;item;position;click\n7;q;a;1;0\n7;q;b;2;1\n",
        "session\tquery\titem\tposition\tclick\n7\tq\ta\t1\t0\n7\tq\tb\t2\t1\n",
        "Session,Query,Item, Position ,Click\r\n7,q,a,1,0\r\n7,q,b,2,1\r\n",
        f"\ufeff{HEADING}\n7,q,a,1,false\n7,q,b,2,True\n",
        f"{HEADING},propensity\n7,q,a,1.0,0.0,\n7,q,b,2.0,1.0,\n",
        f"{HEADING},more\n7,q,a,1,0,x\n7,q,b,2,1,y\n",
    ],
)
def test_tables_as_others_write_them(content, tmp_path):
    (tmp_path / "log.csv").write_text(content, encoding="utf-8")
    log = read(tmp_path / "log.csv")
    assert pages_of(log) == [("q", ["a", "b"], [0, 1])]
    assert log.propensity is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"{HEADING}\n7,q,,1,0\n", "row 2, column 'item': '' is missing"),
        (
            f"{HEADING}\n7,q,a,1,0\n8,q,a,1,0\n7,q,b,2,1\n",
            "row 4, column 'position': '2' is on a page whose rows .*; sort the file by session, pos",
        ),
        (f"{HEADING}\n7,q,a,1,0\n8,q,a,5,0\n8,q,b,6,0\n", "row 3, column 'position': '5' is the first on its page, session 8;"),
        (f"{HEADING}\n7,q,a,1,0\n7,q,a,2,0\n", "rows 2 to 3, column 'item': 'a' stands twice on the page"),
        (f"{HEADING}\n7,q,a,1,0\n\n7,q,b,2,0\n7,q,c,3\n", "row 4: 4 cells, but the heading has 5"),
        (f"{HEADING}\n7,q,a,1,0\n7,q,b,2,0,9\n", "row 3: 6 cells, but the heading has 5"),
        (f"{HEADING},propensity\n7,q,a,1,0,0.5\n7,q,b,2,1,\n", "column 'propensity': a value is missing"),
        (f"{HEADING}\n", "no pages in it"),
    ],
)
def test_what_is_wrong_with_a_table(content, said, tmp_path):
    (tmp_path / "log.csv").write_text(content)
    with pytest.raises(ValueError, match=said):
        import_log([tmp_path / "log.csv"], tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_a_compressed_table_is_named(tmp_path):
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(HEADING.encode()))
    with pytest.raises(ValueError, match="compressed with gzip"):
        read(tmp_path / "log.csv.gz")


@pytest.mark.parametrize("kind", [pa.large_list(pa.large_string()), pa.list_(pa.string(), 2)])
def test_lists_of_every_kind(kind, tmp_path):
    columns = {"query": pa.array(["q"], pa.large_string()), "items": pa.array([["a", "b"]], kind), "clicks": [["0", "1"]]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    assert pages_of(read(tmp_path / "log.parquet")) == [("q", ["a", "b"], [0, 1])]


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("clicks", [["0", "1"], ["yes", "no"]], "row 2, column 'clicks': 'yes' is neither 0 nor 1"),
        ("clicks", [[0, 1], [None, 1]], "row 2, column 'clicks': a value is missing"),
        ("time", ["2024-01-01T00:00:00", "soon"], "row 2, column 'time': 'soon' is not a time"),
        ("propensity", [[0.5, 0.5], [0.5, None]], "row 2, column 'propensity': a value is missing"),
        ("conditional", [[0.5, 0.5], [0.5, 1.5]], "row 2, column 'conditional': 1.5 lies outside"),
        ("seen", [[1, 1], [1, 2]], "row 2, column 'seen': 2 is neither 0 nor 1"),
        ("seen", [[1, 1], [1]], "row 2, column 'seen': 1 values for 2 items"),
    ],
)
def test_what_is_wrong_with_a_column(column, values, said, tmp_path):
    columns = {"query": ["q", "q"], "items": [["a", "b"]] * 2, "clicks": [[0, 1]] * 2, column: values}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=said):
        read(tmp_path / "log.parquet")
    assert len(read(tmp_path / "log.parquet", skip_bad=True)) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"query_id": "0", "action_name": "click", "event_attributes": "none"}', "line 2: a click that does not say"),
        ('{"query_id": "9", "query_response_hit_ids": "abc"}', "line 2, field 'items': 'abc' is not a list"),
    ],
)
def test_what_is_wrong_with_a_line(line, said, tmp_path):
    path = as_ubi(tmp_path / "log.jsonl")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, *lines[1:]]))
    with pytest.raises(ValueError, match=said):
        import_log([path], tmp_path / "out.parquet")
    found = import_log([path], tmp_path / "out.parquet", skip_bad=True)
    assert (found.pages, found.bad) == (3, 1)


def test_a_page_with_clicks_comes_once(tmp_path):
    path = as_ubi(tmp_path / "log.jsonl")
    path.write_text(path.read_text() + "\n" + path.read_text().splitlines()[0])
    with pytest.raises(ValueError, match="a second page '0'"):
        read(path)


def test_conditional_probabilities_come_along(tmp_path):
    more = {"conditional": [[0.5, 1.0, 1.0], [0.25, 1.0], None]}
    import_log([as_lists(tmp_path / "log.parquet", **more)], tmp_path / "out.parquet")
    log = read(tmp_path / "out.parquet")
    np.testing.assert_array_equal(log.conditional, [[0.5, 1, 1], [0.25, 1, 1], [np.nan] * 3])


def test_what_was_seen_comes_along_and_the_rest_is_not_fitted_to(tmp_path):
    pages = {"query": ["q"] * 4, "items": [["a", "b", "c"]] * 4, "clicks": [[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]]}
    seen = [[True, True, False], [True, False, False], None, [False, False, True]]
    pq.write_table(pa.table({**pages, "seen": seen}), tmp_path / "log.parquet")
    import_log([tmp_path / "log.parquet"], tmp_path / "out.parquet")
    log = read(tmp_path / "out.parquet")
    np.testing.assert_array_equal(log.seen, [[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]])
    np.testing.assert_array_equal(log.take([0, 3]).seen, [[1, 1, 0], [0, 0, 1]])
    cut = log.on_screen()
    assert pages_of(cut) == [("q", ["a", "b"], [0, 0]), ("q", ["a"], [0]), ("q", ["a", "b", "c"], [1, 0, 0])]
    assert cut.on_screen() is cut
    bare = read(as_lists(tmp_path / "bare.parquet"))
    assert bare.seen is None
    assert bare.on_screen() is bare


@pytest.mark.parametrize("text", [f"{HEADING}\n1,caf\u00e9,a,1,0\n".encode("latin-1"), f"{HEADING}\n".encode("utf-16")])
def test_other_encodings_are_named(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"not UTF-8 \(perhaps (ISO-8859-1|UTF-16)\); convert it"):
        read(path)


def test_a_data_frame_is_a_log(tmp_path):
    pandas = pytest.importorskip("pandas")
    wide = pandas.DataFrame(PAGES, columns=["query", "items", "clicks"])
    long = pandas.read_csv(as_long(tmp_path / "log.csv"))
    expected = read(as_lists(tmp_path / "log.parquet"))
    for table in (wide, pa.Table.from_pandas(wide), long, long.astype({"query": "category", "item": "category"})):
        found = read(table)
        assert found.items.tolist() == expected.items.tolist()
        assert found.clicks.tolist() == expected.clicks.tolist()
        assert [found.query_ids, found.item_ids] == [expected.query_ids, expected.item_ids]
    counted = read(pandas.DataFrame({"item": ["a"], "position": [0], "impressions": [3], "clicks": [1]}))
    assert isinstance(counted, Counts)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (None, "log: NoneType is not a log; give a file, a data frame"),
        ([1], "log: list is not a log"),
        (pa.table({"a": [1]}), "log: columns a; a log has query"),
        (pa.table({"query": ["q"], "items": [["a", "a"]], "clicks": [[0, 1]]}), "log: row 1, column 'items': 'a' stands twice"),
    ],
)
def test_what_is_no_log_is_refused(log, said):
    with pytest.raises(ValueError, match=said):
        read(log)

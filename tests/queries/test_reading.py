"""SVMrank files: equal to a literal reader, across blocks, as maps, and with the line where something is wrong."""

from __future__ import annotations

import gzip
import itertools
import re
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import recurrank as rr
from recurrank.queries import letor, room
from recurrank.queries.metrics import ndcg


def literal(text, normalise=True):
    """Features, labels and offsets, one line at a time."""
    rows, labels, queries = [], [], []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            labels.append(int(float(words[0])))
            queries.append(int(words[1].removeprefix("qid:")))
            rows.append({int(word.split(":")[0]): float(word.split(":")[1]) for word in words[2:]})
    values = np.zeros((len(rows), max(max(row, default=0) for row in rows)))
    for i, row in enumerate(rows):
        for feature, value in row.items():
            values[i, feature - 1] = value
    starts = [i for i in range(len(rows)) if i == 0 or queries[i] != queries[i - 1]]
    offsets = [*starts, len(rows)]
    if normalise:
        for first, last in itertools.pairwise(offsets):
            part = values[first:last]
            low, wide = part.min(axis=0), np.ptp(part, axis=0)
            values[first:last] = np.where(wide > 0, (part - low) / np.where(wide > 0, wide, 1), 0)
    return values.astype(np.float32), labels, offsets, [queries[i] for i in starts]


WRITTEN = ("0", "3", "-1.5", "2.25e1", ".5", "7.", "1E-3")


def lines(rng, queries=30, dim=7):
    """A file with sparse lines, comments, blank lines and odd spacing."""
    out = []
    for query in range(queries):
        for _ in range(int(rng.integers(1, 9))):
            kept = np.flatnonzero(rng.random(dim) < 0.7) + 1
            values = [
                f"{f}:{rng.choice(['0', '3', '-1.5', '2.25e1', '.5', '7.', '1E-3', repr(float(rng.normal()))])}" for f in kept
            ]
            out.append(
                f"{rng.integers(0, 5)} qid:{query * 3}  {' '.join(values)}" + (" # docid = 7" if rng.random() < 0.3 else "")
            )
        if rng.random() < 0.3:
            out.append(rng.choice(["", "# a comment", "   "]))
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("block", [1, 40, 333, 1 << 23])
@pytest.mark.parametrize("packed", [False, True])
def test_any_block_size_gives_what_a_literal_reader_gives(tmp_path, monkeypatch, block, packed):
    monkeypatch.setattr(letor, "BLOCK", block)
    text = lines(np.random.default_rng(block))
    path = tmp_path / "train.txt"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    values, labels, offsets, names = literal(text)
    for found in (rr.queries.read(path), rr.queries.read(path, map=tmp_path / "map"), rr.queries.open_map(tmp_path / "map")):
        np.testing.assert_array_equal(found.features, values)
        assert (found.labels.tolist(), found.offsets.tolist(), found.queries.tolist()) == (labels, offsets, names)
        assert not found.features.flags.writeable


@pytest.mark.parametrize("block", [200, 1 << 23])
def test_pieces_of_any_width_give_what_a_literal_reader_gives(tmp_path, monkeypatch, block):
    """Blocks are cut until each is small enough; queries go across many pieces."""
    rng, path = np.random.default_rng(3), tmp_path / "wide.txt"
    text = ""
    for query, size in enumerate(rng.integers(1, 30, 25)):
        for _ in range(size):
            kept = sorted({*rng.integers(1, 4, 2).tolist(), *rng.integers(1, 300, int(rng.random() < 0.1)).tolist()})
            text += f"1 qid:{query} " + " ".join(f"{feature}:{rng.integers(0, 9)}" for feature in kept) + "\n"
    path.write_text(text)
    for module, piece in ((letor, 4000), (room, 3000)):
        monkeypatch.setattr(module, "PIECE", piece)
    monkeypatch.setattr(letor, "BLOCK", block)
    features, labels, offsets, _ = literal(text)
    for folder in (None, tmp_path / "map"):
        found = rr.queries.read(path, folder)
        assert np.array_equal(found.features, features)
        assert found.labels.tolist() == labels
        assert found.offsets.tolist() == offsets


@pytest.fixture
def one_large_number(tmp_path):
    """A small file of 20,000 documents, as a table 8 GB."""
    path, lines = tmp_path / "large.txt", [f"{i % 3} qid:{i // 10} 1:{i % 7}\n" for i in range(20_000)]
    lines[12_344] = "1 qid:1234 99999:1\n"
    path.write_text("".join(lines))
    return path


def test_a_large_number_widens_no_other_query(tmp_path, monkeypatch):
    """Neither those of the same block nor those of the blocks after it, until the table is made."""
    path = tmp_path / "first.txt"
    path.write_text("".join(f"1 qid:{i // 10} {99_999 if i == 0 else 1}:{i % 7}\n" for i in range(3000)))
    monkeypatch.setattr(letor, "BLOCK", 2000)
    monkeypatch.setattr(letor, "PIECE", 1 << 22)
    parts = list(letor.read_parts(path, room.Room(np.inf, "")))
    assert sum(len(part.labels) for part in parts) == 3000
    assert sum(part.values.size for part in parts) < 3000 + 100 * 99_999
    with pytest.raises(ValueError, match=r"first.txt, line 1: feature 99,999 makes \d\.\d GB of [\d,]+ documents"):
        list(letor.read_parts(path, room.Room(1e9, "")))


def test_a_table_that_does_not_fit_is_refused_before_it_is_made(one_large_number, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "available_memory", lambda: 4e9)
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: SimpleNamespace(free=3e9))
    said = r"large.txt, line 12,345: feature 99,999 makes \d\.\d GB of [\d,]+ documents, and there is room for"
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"{said} 2.0 GB; give a map, or number the features without gaps$"):
            rr.queries.read(one_large_number)
        with pytest.raises(ValueError, match=rf"{said} 1.5 GB; number the features without gaps$"):
            rr.queries.read(one_large_number, tmp_path / "map")
        assert tracemalloc.get_traced_memory()[1] < 3e8
    finally:
        tracemalloc.stop()
    assert list(tmp_path.iterdir()) == [one_large_number]
    narrow = rr.queries.Queries(np.ones((20_000, 1)), np.zeros(20_000, int), [0, 20_000])
    with pytest.raises(ValueError, match=r"^arrays: feature 99,999 makes 8.0 GB of 20,000 documents"):
        narrow.widened(99_999)


def test_one_query_that_does_not_fit_is_refused(one_large_number, tmp_path, monkeypatch):
    """Though the table would fit on the disk: queries are scaled in memory."""
    one_large_number.write_text(re.sub(r"qid:\d+", "qid:1", one_large_number.read_text()))
    monkeypatch.setattr(room, "available_memory", lambda: 4e9)
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e13))
    with pytest.raises(ValueError, match=r"line 12,345: feature 99,999 makes 8.0 GB of 20,000 documents"):
        rr.queries.read(one_large_number, tmp_path / "map")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=5))
@example([float(np.finfo(np.float32).max)])
def test_numbers_are_those_that_python_reads(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("numbers") / "one.txt"
    path.write_text("1 qid:1 " + " ".join(f"{i + 1}:{value!r}" for i, value in enumerate(values)) + "\n")
    np.testing.assert_array_equal(rr.queries.read(path, normalise=False).features[0], np.array(values, np.float32))


def test_windows_lines_and_a_last_line_without_an_end(tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes(b"2.0 qid:1 1:1\r\n0 qid:1 1:0 3:2")
    assert rr.queries.read(path).features.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_features_that_first_appear_late(tmp_path, monkeypatch):
    """Rows that are written already get wider."""
    monkeypatch.setattr(letor, "BLOCK", 64)
    text = "".join(f"{q % 3} qid:{q} 1:{q} {f'{q // 4 + 2}:1' if q % 4 == 0 else ''}\n" for q in range(40))
    path = tmp_path / "train.txt"
    path.write_text(text)
    found = rr.queries.read(path, map=tmp_path / "map", normalise=False)
    np.testing.assert_array_equal(found.features, literal(text, normalise=False)[0])


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("one qid:1 1:2", "label"),
        ("-1 qid:1 1:2", "label"),
        ("1.5 qid:1 1:2", "label"),
        ("32 qid:1 1:2", "label"),
        ("1 1:2", "no qid"),
        ("1 qid:x 1:2", "no qid"),
        ("1 qid:99999999999999999999 1:2", "no qid"),
        ("1 qid:1 0:2", "a feature"),
        ("1 qid:1 2", "a feature"),
        ("1 qid:1 a:2", "a feature"),
        ("1 qid:1 100001:2", "a feature"),
        ("1 qid:1 1:nan", "finite"),
        ("1 qid:1 1:inf", "finite"),
        ("1 qid:1 1:1e39", "finite"),
        ("1 qid:1 1:", "finite"),
        ("1 qid:1 1:2x", "finite"),
        ("1 qid:1 1:2e", "finite"),
        ("1 qid:1 2:2 1:3", "increase"),
        ("1 qid:1 1:2 1:3", "increase"),
        ("1 qid:0 1:1", "query 0 began earlier"),
    ],
)
@pytest.mark.parametrize("block", [16, 1 << 23])
def test_bad_lines_are_named(tmp_path, monkeypatch, line, word, block):
    monkeypatch.setattr(letor, "BLOCK", block)
    path = tmp_path / "train.txt"
    path.write_text(f"# a file\n0 qid:0 1:1\n0 qid:1 1:1\n\n{line}\n1 qid:2 1:1\n")
    for settings_ in ({}, {"map": tmp_path / "map"}):
        with pytest.raises(ValueError, match=rf"^{path}, line 5: .*{word}"):
            rr.queries.read(path, **settings_)
    assert [one.name for one in tmp_path.iterdir()] == ["train.txt"]


def test_files_that_are_none(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        rr.queries.read(tmp_path / "nowhere.txt")
    (tmp_path / "empty.txt").write_text("\n# nothing\n")
    with pytest.raises(ValueError, match="has no documents"):
        rr.queries.read(tmp_path / "empty.txt")
    torn = gzip.compress(lines(np.random.default_rng(0)).encode())[:-20]
    (tmp_path / "torn.gz").write_bytes(torn)
    with pytest.raises(ValueError, match=r"torn.gz: a damaged gzip file"):
        rr.queries.read(tmp_path / "torn.gz")


def test_a_map_is_made_once_and_again_when_the_file_changes(tmp_path):
    path, folder, seen = tmp_path / "train.txt", tmp_path / "map", []
    path.write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    rr.queries.read(path, map=folder, progress=lambda *done: seen.append(done))
    assert seen[-1] == (24, 24)
    rr.queries.read(path, map=folder, progress=lambda *_: pytest.fail("it was there"))
    path.write_text("1 qid:1 1:1\n0 qid:1 1:0\n1 qid:2 1:5\n")
    assert len(rr.queries.read(path, map=folder)) == 2
    (folder / "features.npy").write_bytes((folder / "features.npy").read_bytes()[:-2])
    with pytest.raises(ValueError, match="not a map of queries, or a damaged one"):
        rr.queries.open_map(folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "letters.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other things"):
        rr.queries.read(path, map=other)
    assert (other / "letters.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"features": np.zeros(3)}, "features"),
        ({"features": [["a"]]}, "features"),
        ({"labels": [0, 1]}, "labels"),
        ({"labels": [0, 1, -1]}, "labels"),
        ({"labels": [0.5, 1, 1]}, "labels"),
        ({"offsets": [0, 2]}, "offsets"),
        ({"offsets": [0, 2, 2, 3]}, "offsets"),
        ({"queries": [1]}, "queries"),
    ],
)
def test_bad_arrays(change, field):
    with pytest.raises(ValueError, match=rf"^{field}: "):
        rr.queries.Queries(**{"features": np.eye(3), "labels": [0, 1, 2], "offsets": [0, 2, 3], **change})


def test_two_files_of_one_collection():
    narrow = rr.queries.Queries(np.ones((2, 1)), [0, 1], [0, 2])
    assert narrow.widened(3).features.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert narrow.widened(1) is narrow
    with pytest.raises(ValueError, match=r"^dim: 1 is less"):
        narrow.widened(3).widened(1)


def test_a_change_anywhere_in_a_file_is_noticed(tmp_path):
    """Also in the middle of a large one: the map is made anew."""
    path, line = tmp_path / "large.txt", "1 qid:{} 1:0.123456789012345 2:0.123456789012345 3:0.123456789012345\n"
    text = "".join(line.format(n // 4) for n in range(50_000))
    path.write_text(text)
    before = rr.queries.read(path, tmp_path / "map").labels.sum()
    middle = len(text) // 2
    at = text.index("\n", middle) + 1
    path.write_text(text[:at] + "0" + text[at + 1 :])
    assert rr.queries.read(path, tmp_path / "map").labels.sum() == before - 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_features_that_are_not_numbers_are_refused(bad):
    with pytest.raises(ValueError, match=r"^features: some are NaN, infinite or too large"):
        rr.queries.Queries(np.array([[0.0, 1.0], [bad, 1.0]]), [0, 1], [0, 2])


def test_ndcg_refuses_what_is_no_ranking():
    queries = rr.queries.Queries(np.eye(3), [0, 2, 1], [0, 3])
    with pytest.raises(ValueError, match=r"^scores: some are NaN"):
        ndcg(queries, np.full(3, np.nan))
    with pytest.raises(ValueError, match=r"^positions: -1"):
        ndcg(queries, np.ones(3), positions=-1)


def test_a_file_without_any_feature_is_refused_with_and_without_a_map(tmp_path):
    path = tmp_path / "bare.txt"
    path.write_text("1 qid:1\n0 qid:1\n")
    for map in (None, tmp_path / "map"):
        with pytest.raises(ValueError, match=r"bare\.txt: no document has a feature"):
            rr.queries.read(path, map)

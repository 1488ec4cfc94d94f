"""Parquet as a map: what is read, once, by one process, however it was interrupted; and what bad files get."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import prepared

import recurrank as rr
from recurrank.catalogue.ids import Names, digest_of

FEATURES = np.random.default_rng(0).standard_normal((1000, 6)).astype(np.float32)
IDS = [f"naïve #{i} ✓" for i in range(1000)]


def listed(features=FEATURES, ids=IDS, kind=None, **more):
    return pa.table({"id": ids, "embedding": pa.array(list(features), kind or pa.list_(pa.float32())), **more})


def columns(features=FEATURES, ids=IDS):
    return pa.table({"id": ids, **{f"f{j}": features[:, j] for j in range(features.shape[1])}})


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if ".map" in path.name]


TABLES = {
    "list": listed(),
    "large list": listed(kind=pa.large_list(pa.float32())),
    "fixed list": listed(kind=pa.list_(pa.float32(), 6)),
    "float64 list": listed(kind=pa.list_(pa.float64())),
    "columns": columns(),
    "with a number beside": listed(price=list(range(1000))),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("rows", [70, 10_000])
def test_what_is_in_the_file_is_in_the_map(tmp_path, name, rows):
    pq.write_table(TABLES[name], tmp_path / "x.parquet", row_group_size=rows)
    seen = []
    catalogue = rr.Catalogue.open(tmp_path / "x.parquet", progress=lambda *done: seen.append(done))
    assert isinstance(catalogue.features, np.memmap)
    assert catalogue.features.dtype == np.float32
    np.testing.assert_array_equal(catalogue.features, FEATURES)
    assert list(catalogue.ids) == IDS
    assert catalogue.ids[-1] == IDS[-1]
    assert list(catalogue.ids[2:4]) == IDS[2:4]
    assert seen[-1] == (1000, 1000)
    assert leftovers(tmp_path) == ["x.parquet.map"]
    same = rr.Catalogue(FEATURES, IDS)
    assert catalogue.fingerprint == same.fingerprint
    assert catalogue.scales.tolist() == same.scales.tolist()
    assert catalogue.fingerprint != rr.Catalogue(FEATURES).fingerprint != rr.Catalogue(FEATURES, IDS[::-1]).fingerprint
    again = []
    assert len(rr.Catalogue(tmp_path / "x.parquet")) == len(rr.Catalogue.open(tmp_path / "x.parquet.map")) == 1000
    rr.Catalogue.open(tmp_path / "x.parquet", progress=lambda *done: again.append(done))
    assert again == []  # converted once


def test_a_ranker_learns_from_a_map_and_is_loaded_with_it(tmp_path):
    pq.write_table(columns(), tmp_path / "x.parquet")
    ranker = rr.RecurRank(tmp_path / "x.parquet", positions=5, rounds=1000, seed=0)
    for _ in range(50):
        ranker.learn(ranker.rank(), [True, False, False, False, True])
    loaded = rr.load(ranker.save(), tmp_path / "x.parquet.map")
    assert loaded.rank().items.tolist() == ranker.rank().items.tolist()
    with pytest.raises(ValueError, match="not the catalogue that the saved ranker learned on"):
        rr.load(ranker.save(), FEATURES)  # other ids: none


def test_many_files_are_one_catalogue(tmp_path):
    folder = tmp_path / "items"
    folder.mkdir()
    for number in range(4):
        part = slice(250 * number, 250 * (number + 1))
        pq.write_table(listed(FEATURES[part], IDS[part]), folder / f"part-{number}.parquet", row_group_size=100)
    for where in (folder, str(folder / "part-*.parquet"), sorted(folder.glob("*.parquet")), folder.as_uri()):
        catalogue = rr.Catalogue.open(where)
        np.testing.assert_array_equal(catalogue.features, FEATURES)
        assert list(catalogue.ids) == IDS
    assert (tmp_path / "items.map" / "features.npy").is_file()


def test_a_map_elsewhere_and_columns_by_name(tmp_path):
    table = listed(other=list(FEATURES[:, ::-1])).rename_columns(["name", "embedding", "other"])
    pq.write_table(table, tmp_path / "x.parquet")
    catalogue = rr.Catalogue.open(tmp_path / "x.parquet", features="other", ids="name", to=tmp_path / "there")
    np.testing.assert_array_equal(catalogue.features, FEATURES[:, ::-1])
    assert list(catalogue.ids) == IDS
    chosen = rr.Catalogue.open(tmp_path / "x.parquet", features="embedding", to=tmp_path / "there")  # made anew
    np.testing.assert_array_equal(chosen.features, FEATURES)
    assert chosen.ids is None
    pq.write_table(columns(), tmp_path / "y.parquet")
    np.testing.assert_array_equal(
        rr.Catalogue.open(tmp_path / "y.parquet", features=["f3", "f1"]).features, FEATURES[:, [3, 1]]
    )


def test_a_changed_file_is_converted_again(tmp_path):
    pq.write_table(listed(), tmp_path / "x.parquet")
    rr.Catalogue.open(tmp_path / "x.parquet")
    pq.write_table(listed(FEATURES[:500], IDS[:500]), tmp_path / "x.parquet")
    assert len(rr.Catalogue.open(tmp_path / "x.parquet")) == 500
    assert leftovers(tmp_path) == ["x.parquet.map"]


def test_npy_and_raw_files(tmp_path):
    np.save(tmp_path / "x.npy", FEATURES)
    FEATURES.tofile(tmp_path / "x.f32")
    for catalogue in (rr.Catalogue(tmp_path / "x.npy"), rr.Catalogue.open(str(tmp_path / "x.f32"), dim=6)):
        assert isinstance(catalogue.features, np.memmap)
        np.testing.assert_array_equal(catalogue.features, FEATURES)
    with pytest.raises(ValueError, match="bytes are not a whole number of rows of 7 float32"):
        rr.Catalogue.open(tmp_path / "x.f32", dim=7)
    with pytest.raises(ValueError, match="give dim"):
        rr.Catalogue.open(tmp_path / "x.f32")


def bad_tables():
    """A table, how it is opened, and what is said."""
    hole = FEATURES.copy()
    hole[700, 3] = np.nan
    ragged = [row.tolist() for row in FEATURES]
    ragged[800] = ragged[800][:5]
    twice = [*IDS[:-1], IDS[17]]
    whole = [row.tolist() for row in FEATURES]
    holed = columns().set_column(3, "f2", pa.array([None, *FEATURES[1:, 2]]))
    large = listed(FEATURES.astype(float) * 1e300, kind=pa.list_(pa.float64()))
    return {
        "null list": (listed([*whole[:900], None, *whole[901:]]), {}, "row 900, column 'embedding': empty"),
        "null feature": (listed([[None, *whole[0][1:]], *whole[1:]]), {}, "row 0, .*a feature is empty"),
        "null in a column": (holed, {}, "row 0, column 'f2': empty"),
        "ragged": (listed(ragged), {}, "row 800, column 'embedding': 5 features, the first item has 6"),
        "ragged, as many in all": (listed([[1.0, 1.0], [1.0], [1.0] * 3], ["a", "b", "c"]), {}, "row 1, .* 1 features"),
        "empty lists": (listed([[], []], ["a", "b"]), {}, "row 0, column 'embedding': no features"),
        "not finite": (listed(hole), {}, "row 700, column 'embedding': nan is not finite"),
        "not finite in a column": (columns(hole), {}, "row 700, column 'f3': nan is not finite"),
        "too large for float32": (large, {}, "is not finite as float32"),
        "all zero": (listed(0 * FEATURES), {}, "every feature of every item is zero"),
        "no such column": (listed(), {"features": "vector"}, "no column 'vector'; it has 'id', 'embedding'"),
        "no such ids": (listed(), {"ids": "sku"}, "no column 'sku'"),
        "words for features": (listed(), {"features": "id"}, "column 'id' holds string, which are not numbers"),
        "null id": (listed(ids=[None, *IDS[1:]]), {}, "row 0, column 'id': no id"),
        "repeated id": (listed(ids=twice), {}, "'naïve #17 ✓' is the id of items 17 and 999"),
        "no rows": (listed().slice(0, 0), {}, "no rows"),
        "no features": (pa.table({"id": IDS}), {}, "no list column and no numeric columns"),
    }


@pytest.mark.parametrize("name", bad_tables())
def test_bad_files_get_one_line_and_leave_nothing(tmp_path, name):
    table, options, says = bad_tables()[name]
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=300)
    with pytest.raises(ValueError, match=says) as caught:
        rr.Catalogue.open(tmp_path / "x.parquet", **options)
    assert "\n" not in str(caught.value)
    assert "x.parquet" in str(caught.value)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (columns(), "part-1.parquet: column 'f0' where 'embedding' should be"),
        (listed(kind=pa.list_(pa.float64())), r"part-1.parquet: column 'embedding' holds list<element: double> instead of"),
        (listed().drop_columns(["id"]), "part-1.parquet: ids in column None"),
    ],
)
def test_a_partition_with_another_schema(tmp_path, other, says):
    pq.write_table(listed(), tmp_path / "part-0.parquet")
    pq.write_table(other, tmp_path / "part-1.parquet")
    with pytest.raises(ValueError, match=says):
        rr.Catalogue.open(str(tmp_path / "part-*.parquet"))
    assert leftovers(tmp_path) == []


def test_damaged_parquet(tmp_path):
    pq.write_table(listed(), tmp_path / "x.parquet", row_group_size=100, compression="zstd")
    whole = (tmp_path / "x.parquet").read_bytes()
    for damaged in (whole[:-100], b"hello", whole[:2000] + bytes(3000) + whole[5000:]):
        (tmp_path / "x.parquet").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"x\.parquet: (not a Parquet file, or a damaged one|row)") as caught:
            rr.Catalogue.open(tmp_path / "x.parquet")
        assert "\n" not in str(caught.value)
        assert leftovers(tmp_path) == []


def test_a_damaged_map_is_told(tmp_path):
    pq.write_table(listed(), tmp_path / "x.parquet")
    rr.Catalogue.open(tmp_path / "x.parquet")
    features = tmp_path / "x.parquet.map" / "features.npy"
    os.truncate(features, 5000)
    with pytest.raises(ValueError, match=r"damaged map \(features\.npy has 5,000 bytes instead of 24,128\); delete it"):
        rr.Catalogue.open(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    "about",
    [
        b"",
        b"[]",
        b"5",
        b"\xff",
        b'{"format": 1}',
        b'{"format": 1, "rows": "x", "dim": 6, "scales": [1, 1, 1, 1, 1, 1], "ids": null}',
        b'{"format": 1, "rows": 1000, "dim": null, "scales": [1, 1, 1, 1, 1, 1], "ids": null}',
        b'{"format": 1, "rows": 1000, "dim": 6, "scales": "x", "ids": null}',
        b'{"format": 1, "rows": 1000, "dim": 6, "scales": [1], "ids": null}',
        b'{"format": 99}',
    ],
)
def test_a_damaged_description_is_told_and_made_anew_from_the_parquet(tmp_path, about):
    pq.write_table(listed(), tmp_path / "x.parquet")
    rr.Catalogue.open(tmp_path / "x.parquet")
    folder = tmp_path / "x.parquet.map"
    (folder / "about.json").write_bytes(about)
    with pytest.raises(ValueError, match=r"x\.parquet\.map: (a damaged map|not a map|a map of format)") as caught:
        rr.Catalogue.open(folder)
    assert "\n" not in str(caught.value)
    if b"99" not in about:
        np.testing.assert_array_equal(rr.Catalogue.open(tmp_path / "x.parquet").features, FEATURES)


def test_nothing_but_a_map_is_replaced(tmp_path):
    folder = tmp_path / "items"
    folder.mkdir()
    pq.write_table(listed(), folder / "x.parquet")
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for to, says in (
        ("keep", r"keep: holds other things than a map \(mine\)"),
        ("items", "x.parquet"),
        ("file", "is not a folder"),
    ):
        with pytest.raises(ValueError, match=says):
            rr.Catalogue.open(folder, to=tmp_path / to)
    assert (tmp_path / "keep" / "mine").read_text() == (tmp_path / "file").read_text() == "mine"
    assert (folder / "x.parquet").is_file()
    pq.write_table(listed(0 * FEATURES), folder / "x.parquet")
    with pytest.raises(ValueError, match="every feature of every item is zero"):
        rr.Catalogue.open(folder, to=tmp_path / "deep" / "er" / "map")
    assert not (tmp_path / "deep").exists()


def test_odd_names_and_places(tmp_path, monkeypatch):
    folder = tmp_path / "dir [old] *"
    folder.mkdir()
    pq.write_table(listed(), folder / "it[1]?.parquet")
    assert len(rr.Catalogue.open(folder / "it[1]?.parquet")) == len(rr.Catalogue.open(folder)) == 1000
    monkeypatch.chdir(folder)
    for where in (".", "*.parquet", "./*.parquet", str(folder / "*.parquet")):
        np.testing.assert_array_equal(rr.Catalogue.open(where).features, FEATURES)
    assert len([name for name in leftovers(folder) if name != "it[1]?.parquet.map"]) == 1  # one map of one pattern
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        pq.write_table(listed(), folder / "it[1]?.parquet")
        rr.Catalogue.open(folder, to=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "features.npy").is_file()


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({"id": [1, 2], "f": [1.0, 2.0]}, {"features": ["f", "f"]}, "column 'f' is there, or asked for, twice"),
        ({"id": [1, 2], "f": [1.0, 2.0]}, {"features": "id", "ids": "id"}, "column 'id' is there, or asked for, twice"),
        ({"id": [1, 2], "f": [1.0, 2.0]}, {"features": []}, "features: .* is not the name of a column"),
        ({"id": [1, 2], "f": [1.0, 2.0]}, {"features": 3}, "features: 3 is not the name of a column"),
        ({"id": [1, 2], "f": [1.0, 2.0]}, {"ids": ""}, "no column ''"),
        (
            {"year": [1, 2], "f": [{"a": 1}, {"a": 2}]},
            {},
            "column 'f' holds struct<.*>, which may be features or not",
        ),
        ({"id": pa.array([b"\xff\xfe", b"a"]).view(pa.string()), "f": [1.0, 2.0]}, {}, "an id is not text in UTF-8"),
    ],
)
def test_columns_that_will_not_do(tmp_path, columns, options, says):
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=says):
        rr.Catalogue.open(tmp_path / "x.parquet", **options)
    assert leftovers(tmp_path) == []


def test_two_columns_of_one_name(tmp_path):
    arrays = [pa.array(["a", "b"]), pa.array([1.0, 2.0]), pa.array([3.0, 4.0])]
    pq.write_table(pa.Table.from_arrays(arrays, names=["id", "f", "f"]), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="column 'f' is there, or asked for, twice"):
        rr.Catalogue.open(tmp_path / "x.parquet")


def test_tensors_categories_and_empty_files(tmp_path):
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(FEATURES))
    table = pa.table({"id": pa.array(IDS).dictionary_encode(), "year": list(range(1000)), "embedding": tensors})
    pq.write_table(table.slice(0, 0), tmp_path / "a.parquet")
    pq.write_table(table, tmp_path / "b.parquet")
    catalogue = rr.Catalogue.open(tmp_path)
    np.testing.assert_array_equal(catalogue.features, FEATURES)
    assert list(catalogue.ids) == IDS


def test_damaged_ids_are_told(tmp_path):
    pq.write_table(listed(), tmp_path / "x.parquet")
    rr.Catalogue.open(tmp_path / "x.parquet")
    (tmp_path / "x.parquet.map" / "ids").write_bytes(b"short")
    with pytest.raises(ValueError, match="its ids are damaged; delete the folder and convert again"):
        rr.Catalogue.open(tmp_path / "x.parquet")


TRUNCATED = """
import os, sys, numpy as np, recurrank as rr
catalogue = rr.Catalogue({path!r})
ranker = rr.RecurRank(catalogue, positions=5, rounds=1000, seed=0)
os.truncate({path!r}, 200_000)
works = (
    lambda: rr.g_optimal(catalogue.features), ranker.save, lambda: rr.RecurRank(catalogue, 5, 1000), ranker._rows(None).chunks
)
for work in works:
    try:
        list(work())
    except ValueError as error:
        print(error)
"""


LOADED = ("recurrank.catalogue", "recurrank.catalogue.parquet", "recurrank.design", "recurrank.rankers")
"""What these scripts import."""

TRUNCATED_NAMES = """
import os, recurrank as rr
catalogue = rr.Catalogue.open({path!r})
os.truncate({path!r} + "/ids", 0)
for work in (lambda: catalogue.ids[7], lambda: list(catalogue.ids), lambda: catalogue.fingerprint):
    try:
        work()
    except ValueError as error:
        print(error)
"""


def test_a_map_truncated_behind_our_back_is_no_crash(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).standard_normal((200_000, 8)).astype(np.float32))
    numbers = TRUNCATED.format(path=str(path))
    out = prepared.run([sys.executable, "-c", numbers], capture_output=True, text=True, load=LOADED)
    assert out.returncode == 0, out.stderr
    lines = out.stdout.splitlines()
    assert len(lines) == 4
    pq.write_table(listed(), tmp_path / "y.parquet")
    rr.Catalogue.open(tmp_path / "y.parquet")
    names = TRUNCATED_NAMES.format(path=str(tmp_path / "y.parquet.map"))
    out = prepared.run([sys.executable, "-c", names], capture_output=True, text=True, load=LOADED)
    assert out.returncode == 0, out.stderr
    assert [line.split(": ")[1] for line in out.stdout.splitlines()] == [
        "0 bytes are left of the 14,890 when it was opened; restore the file"
    ] * 3
    assert all("x.npy: 200,000 bytes are left of the 6,400,128 when it was opened" in line for line in lines)


CONVERT = """
import sys, time, recurrank as rr
from recurrank.catalogue import parquet
parquet.BATCH_NUMBERS = 600
def progress(done, whole):
    print(done, flush=True)
    time.sleep({pause})
rr.Catalogue.open({path!r}, progress=progress)
print("finished", flush=True)
"""


def converting(path, pause=0.0, **options):
    script = CONVERT.format(path=str(path), pause=pause)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return prepared.start([sys.executable, "-c", script], load=LOADED, **pipes, **options)


@pytest.mark.parametrize("torn", ["", "features.npy", "ids", "ids.npy"])
def test_killed_conversion_goes_on_where_it_stopped(tmp_path, torn):
    """Kill -9 in the middle; then, once, a written group is damaged, which its checksum shows."""
    pq.write_table(listed(), tmp_path / "x.parquet", row_group_size=100)
    process = converting(tmp_path / "x.parquet", pause=0.02)
    done = 0
    while done < 600:
        done = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()
    process.stderr.close()
    part = tmp_path / "x.parquet.map.part"
    journal = [json.loads(line) for line in (part / "done").read_text().splitlines()]
    assert 1 <= len(journal) < 10
    if torn:
        with open(part / torn, "r+b") as file:
            file.seek(140)
            file.write(b"torn")
        with open(part / "done", "a") as file:
            file.write("[900, 17, [0.")
    seen = []
    catalogue = rr.Catalogue.open(tmp_path / "x.parquet", progress=lambda *done: seen.append(done))
    assert seen[0][0] == (0 if torn else 100 * len(journal))  # the first call says what was there already
    np.testing.assert_array_equal(catalogue.features, FEATURES)
    assert list(catalogue.ids) == IDS
    assert leftovers(tmp_path) == ["x.parquet.map"]


def test_a_part_of_other_data_is_not_gone_on_with(tmp_path):
    pq.write_table(listed(), tmp_path / "x.parquet", row_group_size=100)
    process = converting(tmp_path / "x.parquet", pause=0.02)
    while int(process.stdout.readline()) < 500:
        pass
    process.kill()
    process.communicate(timeout=30)
    pq.write_table(listed(-FEATURES), tmp_path / "x.parquet", row_group_size=100)
    np.testing.assert_array_equal(rr.Catalogue.open(tmp_path / "x.parquet").features, -FEATURES)


def test_two_processes_convert_once(tmp_path):
    pq.write_table(listed(), tmp_path / "x.parquet", row_group_size=100)
    both = [converting(tmp_path / "x.parquet", pause=0.01) for _ in range(2)]
    lines = [process.communicate(timeout=120)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(map(len, lines))[0] == 1  # only "finished"
    assert leftovers(tmp_path) == ["x.parquet.map"]


def test_a_disk_that_fills_up(tmp_path):
    """A limit on the size of files stands for it: the room is asked for before anything is written."""
    pq.write_table(listed(ids=[f"{i:050}" for i in range(1000)]), tmp_path / "x.parquet", row_group_size=100)
    for limit in (10_000, 25_000):  # the features do not fit; then they do, but the ids do not
        limited = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
        process = converting(tmp_path / "x.parquet", preexec_fn=limited)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "finished" not in out
        assert err.splitlines()[-1].startswith("ValueError: ")
        assert "x.parquet.map: could not be written (File too large); nothing is left of it" in err
        assert leftovers(tmp_path) == []


def test_interrupted_by_hand_it_keeps_what_is_done(tmp_path):
    pq.write_table(listed(), tmp_path / "x.parquet", row_group_size=100)
    calls = []

    def stop(done, whole):
        calls.append(done)
        if len(calls) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rr.Catalogue.open(tmp_path / "x.parquet", progress=stop)
    assert (tmp_path / "x.parquet.map.part").is_dir()
    np.testing.assert_array_equal(rr.Catalogue.open(tmp_path / "x.parquet").features, FEATURES)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(names=st.lists(st.text(max_size=6), min_size=1, max_size=30))
def test_names_in_a_file_are_the_names(tmp_path, names):
    names = [name for name in names if not any(0xD800 <= ord(letter) < 0xE000 for letter in name)] or ["a"]
    text = [name.encode() for name in names]
    ends = np.concatenate([[0], np.cumsum([len(name) for name in text])]).astype(np.int64)
    (tmp_path / "ids").write_bytes(b"".join(text))
    np.save(tmp_path / "ids.npy", ends)
    held = Names.open(tmp_path / "ids", tmp_path / "ids.npy")
    assert list(held) == names == [held[i] for i in range(len(held))]
    assert held.digest() == digest_of(tuple(names))
    repeated = held.repeated()
    if len(set(names)) == len(names):
        assert repeated is None
    else:
        later = next(i for i, name in enumerate(names) if name in names[:i])
        assert repeated == (names.index(names[later]), later)

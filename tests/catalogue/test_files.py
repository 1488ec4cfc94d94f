"""Feature files: what is read, and the one line that a bad one gets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recurrank.catalogue.files import read_features

FEATURES = np.arange(12.0).reshape(4, 3)


def test_npy_is_mapped(tmp_path):
    np.save(tmp_path / "x.npy", FEATURES)
    read = read_features(tmp_path / "x.npy")
    assert isinstance(read, np.memmap)
    np.testing.assert_array_equal(read, FEATURES)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"id": ["a", "b", "c", "d"], "embedding": FEATURES.tolist()}),
        pa.table({"embedding": pa.array(FEATURES.tolist(), pa.list_(pa.float32(), 3))}),
        pa.table({"number": [7, 8, 9, 10], "embedding": FEATURES.tolist()}),
        pa.table({"name": ["a", "b", "c", "d"], **{f"f{j}": FEATURES[:, j] for j in range(3)}}),
    ],
)
def test_parquet(tmp_path, table):
    pq.write_table(table, tmp_path / "x.parquet")
    np.testing.assert_array_equal(read_features(tmp_path / "x.parquet"), FEATURES)


def test_booleans_are_features(tmp_path):
    pq.write_table(pa.table({"a": [1.5, 2.5], "b": [True, False], "name": ["x", "y"]}), tmp_path / "x.parquet")
    np.testing.assert_array_equal(read_features(tmp_path / "x.parquet"), [[1.5, 1.0], [2.5, 0.0]])


def bad_files(folder):
    (folder / "text.npy").write_text("hello")
    np.save(folder / "whole.npy", FEATURES)
    (folder / "cut.npy").write_bytes((folder / "whole.npy").read_bytes()[:-8])
    np.save(folder / "line.npy", FEATURES[0])
    np.save(folder / "pickled.npy", np.array([{}, None]), allow_pickle=True)
    (folder / "text.parquet").write_text("hello")
    pq.write_table(pa.table({"e": [[1.0, 2.0], [3.0]]}), folder / "ragged.parquet")
    pq.write_table(pa.table({"e": [[1.0, 2.0], None]}), folder / "null.parquet")
    pq.write_table(pa.table({"e": ["a", "b"]}), folder / "words.parquet")
    pq.write_table(pa.table({"e": [["a"], ["b"]]}), folder / "wordy.parquet")
    pq.write_table(pa.table({"e": [[1.0], [2.0]], "f": [[1.0], [2.0]]}), folder / "two.parquet")
    (folder / "x.csv").write_text("1,2\n")
    return [*(path.name for path in folder.iterdir() if path.name != "whole.npy"), "none.npy"]


def test_bad_files_get_one_line(tmp_path):
    for name in bad_files(tmp_path):
        with pytest.raises(ValueError, match=r"features|parquet|npy|csv") as caught:
            read_features(tmp_path / name)
        assert "\n" not in str(caught.value), name

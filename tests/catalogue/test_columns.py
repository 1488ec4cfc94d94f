"""Which columns are features: the same rule, whatever the file."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recurrank as rr
from recurrank.catalogue.columns import Column, Kind, layout

TABLE = {"year": [1990, 1991], "ID": ["a", "b"], "length": [1.5, 2.0], "comment": ["hm", "so"]}


@pytest.mark.parametrize("name", ["items.csv", "items.parquet"])
def test_csv_and_parquet_agree(tmp_path, name):
    path = tmp_path / name
    if path.suffix == ".csv":
        rows = zip(*TABLE.values(), strict=True)
        path.write_text("\n".join(",".join(map(str, row)) for row in [TABLE, *rows]))
    else:
        pq.write_table(pa.table(TABLE), path)
    catalogue = rr.Catalogue.open(path)
    assert list(catalogue.ids) == ["a", "b"]
    assert catalogue.features.tolist() == [[1990, 1.5], [1991, 2.0]]
    chosen = rr.Catalogue.open(path, features=["length"], ids="comment")
    assert (chosen.features.tolist(), list(chosen.ids)) == ([[1.5], [2.0]], ["hm", "so"])
    with pytest.raises(ValueError, match=rf"{name}: no column 'width'; it has 'year', 'ID', 'length', 'comment'"):
        rr.Catalogue.open(path, features="width")
    with pytest.raises(ValueError, match=rf"{name}: column 'comment' holds (text|string), which are not numbers"):
        rr.Catalogue.open(path, features="comment")


def test_lists_come_before_numbers_and_unclear_columns_are_asked_for():
    number, vector = Column("n", Kind.NUMBERS, "double"), Column("v", Kind.LISTS, "list<double>")
    words, other = Column("w", Kind.BESIDE, "string"), Column("o", Kind.UNCLEAR, "list<string>")
    assert layout("x", [number, words, vector, other]).names == ["v"]
    assert [layout("x", [number, words, vector]).role(name).value for name in "nwv"] == ["not used", "not used", "feature"]
    assert layout("x", [number, words], text_names=True).names == ["n", "w"]
    assert layout("x", [number, words]).ids is None
    with pytest.raises(ValueError, match="x: column 'o' holds list<string>, which may be features or not"):
        layout("x", [number, other])
    with pytest.raises(ValueError, match=r"x: several list columns \(v, u\)"):
        layout("x", [vector, vector._replace(name="u")])
    with pytest.raises(ValueError, match="x: column 'v' holds list<double>, which are not numbers"):
        layout("x", [number, vector], features=["n", "v"])

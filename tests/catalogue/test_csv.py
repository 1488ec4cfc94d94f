"""CSV files of items: what is read, and that every fault is told with its row and column."""

from __future__ import annotations

import numpy as np
import pytest

from recurrank.catalogue import csv as csvfile
from recurrank.catalogue.csv import read_csv


def test_columns_get_their_roles():
    read = read_csv('title,genre,x,y\n"A, ""b""\nc",drama,1,2.5\nÜber,comedy,-3e-1,4\n\n'.encode("utf-8-sig"))
    assert (read.layout.names, read.ids) == (["x", "y", "title"], ['A, "b"\nc', "Über"])
    assert read.features.tolist() == [[1.0, 2.5], [-0.3, 4.0]]
    read = read_csv(b"x;ID;note\n1;a;hm\n2;7;hm\n")  # a column called id, even if it looks like numbers
    assert (read.layout.names, read.ids) == (["x", "ID"], ["a", "7"])
    read = read_csv(b"x\ty\n1\t2\n3\t5\n")
    assert read.layout.ids is None
    assert read.ids is None
    assert read.features.tolist() == [[1, 2], [3, 5]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "file: empty"),
        ("id,x\n", "file: a heading and no rows"),
        ("1,2\n3,4\n", "row 1: numbers only"),
        ("id,x,x\na,1,2\n", "row 1: two columns are called 'x'"),
        ("id,,x\na,1,2\n", "row 1: column 2 has no name"),
        ("id,x\na,1\nb,1,2\n", "row 3: 3 cells, but the heading has 2"),
        ("id,x\na,1\nb,n/a\n", "row 3, column 'x': 'n/a' is not a number"),
        ("id,x\na,1\nb,\n", "row 3, column 'x': an empty cell"),
        ("id,x\na,1\nb,nan\n", "row 3, column 'x': 'nan' is not a number"),
        ("id,x\na,1\n,2\n", "row 3, column 'id': an id has 1 to 256"),
        (f"id,x\n{'a' * 257},1\n", "row 2, column 'id': an id has 1 to 256 letters, this one 257"),
        ("id,note\na,hm\n", "file: no list column and no numeric columns"),
        ('id,x\n"a,1\n', "row 2: unexpected end of data"),
    ],
)
def test_a_fault_is_told_where_it_is(text, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        read_csv(text.encode())


def test_other_letters_are_told():
    with pytest.raises(ValueError, match="byte 5 is not UTF-8"):
        read_csv("id,x\né,1\n".encode("latin-1"))


def test_many_rows_are_read_piece_by_piece(monkeypatch):
    monkeypatch.setattr(csvfile, "CELLS", 6)
    lines = ["id,x", *(f"i{n},{n}" for n in range(10))]
    read = read_csv("\n".join(lines).encode())
    assert read.ids == [f"i{n}" for n in range(10)]
    np.testing.assert_array_equal(read.features[:, 0], np.arange(10))
    lines[9] = "i8,eight"
    with pytest.raises(ValueError, match="row 10, column 'x': 'eight'"):
        read_csv("\n".join(lines).encode())

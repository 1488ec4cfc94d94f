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
        ("id,x,y\na,1,\nb,3,4\n", "row 2, column 'y': an empty cell is not a number"),
        ('id,x,y\na,1,"1,000"\nb,3,"2,000"\nc,5,4\n', "row 2, column 'y': '1,000' is not a number"),
        ("id,x,y\na,1,NA\nb,3,n/a\nc,5,4\n", "row 2, column 'y': 'NA' is not a number"),
        ("id,x,y\na,1,four\nb,3,4\n", "row 2, column 'y': 'four' is not a number"),
        ("id,x\na,1\nb,two\nc,three\n", "row 3, column 'x': 'two' is not a number"),
        ("x,y\n,1\n2,3\n", "row 2, column 'x': an empty cell is not a number"),
    ],
)
def test_a_fault_is_told_where_it_is(text, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        read_csv(text.encode())


def test_text_with_some_numbers_stays_text():
    """Titles, dates, and columns that are empty."""
    read = read_csv(b"title,day,empty,x\nAlien,2024-01-02,,1\n1917,2024-01-03,,2\nCasablanca,,,3\n")
    assert (read.layout.names, read.ids) == (["x", "title"], ["Alien", "1917", "Casablanca"])
    assert read.features.tolist() == [[1], [2], [3]]


def test_the_first_rows_decide_whether_a_column_has_numbers(monkeypatch):
    monkeypatch.setattr(csvfile, "CELLS", 9)  # three rows
    with pytest.raises(ValueError, match="row 2, column 'y': an empty cell"):
        read_csv(b"id,x,y\na,1,\nb,2,\nc,3,4\nd,5,6\n")
    assert read_csv(b"id,x,y\na,1,\nb,2,\nc,3,\nd,5,6\n").layout.names == ["x", "id"]


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

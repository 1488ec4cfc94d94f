"""Arrays that users give: what is converted, and what is refused with the field, row and column."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from recurrank._arrays import as_array, as_features

pandas = pytest.importorskip("pandas")


def test_numbers_as_python_objects_are_features() -> None:
    mixed = pandas.DataFrame({"price": [1, 2], "new": [True, False], "size": [0.5, 1.5]})  # together of dtype object
    assert as_features(mixed).tolist() == [[1.0, 1.0, 0.5], [2.0, 0.0, 1.5]]
    assert as_features(np.array([[1, 2.5], [np.float32(3), 4]], dtype=object)).tolist() == [[1.0, 2.5], [3.0, 4.0]]
    assert as_features(pandas.Series([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[1.0, 2.0], [3.0, 4.0]]  # a column of lists


class Sparse:
    """What a sparse matrix looks like to NumPy: a single object."""

    def toarray(self) -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.ma.masked_array(np.eye(2), mask=[[True, False], [False, False]]), "some entries are masked"),
        (pandas.DataFrame({"price": [1.0, 2.0], "name": ["x", "y"]}), "row 0, column 'name': 'x' is not a number"),
        (pandas.DataFrame({"price": pandas.array([1, None], dtype="Int64"), "b": [1.0, 2]}), "row 1, column 'price': <NA>"),
        ([[1.0, 2.0], [3.0, None]], "row 1, column 1: None is not a number"),
        (Sparse(), "Sparse is not a matrix of numbers; give its toarray()"),
        (None, "NoneType is not a matrix of numbers"),
        ((row for row in np.eye(2)), "generator is not a matrix of numbers; give an array or a list"),
        ([[1.0, 2.0], [3.0]], "rows have different lengths"),
        (pandas.Series([[1.0, 2.0], [3.0]]), "rows have different lengths"),
    ],
)
def test_what_holds_no_numbers_is_named(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"features: {said}")):
        as_features(given)


def test_masked_arrays_are_named_everywhere() -> None:
    with pytest.raises(ValueError, match="theta: some entries are masked"):
        as_array("theta", np.ma.masked_array([1.0, 2.0], mask=[True, False]))

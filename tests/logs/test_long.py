"""Long tables: whether positions begin at 0 or at 1 is decided once for a file, by the rows that are read first."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recurrank.logs.formats import long
from recurrank.logs.reading import read


@pytest.mark.parametrize(
    ("at_a_time", "positions", "row", "first", "session", "base", "sound"),
    [
        (100, [0, 1, 1, 2, 0, 1], 3, 1, 2, 0, 2),
        (3, [0, 1, 1, 2, 0, 1], 3, 1, 2, 0, 2),
        (3, [1, 0, 0, 1, 1, 2], 5, 1, 3, 0, 2),
        (100, [1, 2, 1, 2, 0, 1], 1, 1, 1, 0, 1),
        (3, [1, 2, 1, 2, 0, 1], 5, 0, 3, 1, 2),  # what has been passed on cannot be refused any more
    ],
)
def test_a_page_that_begins_elsewhere_is_refused(tmp_path, monkeypatch, at_a_time, positions, row, first, session, base, sound):
    monkeypatch.setattr(long, "ROWS", at_a_time)
    columns = {"session": [1, 1, 2, 2, 3, 3], "item": list("ababab"), "click": [0] * 6, "position": positions}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    said = f"row {row}, column 'position': {first} is the first on its page, session {session}; .* begin at position {base}"
    with pytest.raises(ValueError, match=said):
        read(tmp_path / "log.parquet")
    assert len(read(tmp_path / "log.parquet", skip_bad=True)) == sound

"""Results as pandas tables, if pandas is installed."""

from __future__ import annotations

from typing import Any


def frame(rows: Any) -> Any:
    """A DataFrame of rows or columns."""
    try:
        import pandas
    except ImportError as error:
        raise ValueError("to_frame: pandas is not installed; install it, or use the attributes, which are arrays") from error
    return pandas.DataFrame(rows)

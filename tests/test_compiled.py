"""The disk cache of compiled code: kept between processes, and never older than the sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

import recurrank
from recurrank._compiled import hot

SCRIPT = """
import sys
sys.path.insert(0, {where!r})
import numpy as np
from recurrank.clicks.cascade import Cascade, examine
print(Cascade([0.5, 0.5]).examine([0, 1])[1], sum(examine.stats.cache_hits.values()))
"""


def test_a_change_in_any_source_file_compiles_anew(tmp_path):
    shutil.copytree(Path(recurrank.__file__).parent, tmp_path / "recurrank", ignore=shutil.ignore_patterns("__pycache__"))

    def run():
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(where=str(tmp_path))], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert run() == ["0.5", "0"]
    assert run() == ["0.5", "1"]  # from the disk
    other = tmp_path / "recurrank" / "clicks" / "document.py"  # another file than the function's own
    other.write_text(other.read_text() + "\n# changed\n")
    assert run() == ["0.5", "0"]


def test_a_hot_function_that_allocates_does_not_compile():
    def allocates(n):
        return np.zeros(n).sum()

    with pytest.raises((TypingError, RuntimeError)):
        hot(allocates)(3)

"""The pictures of docs/logs.md: ``python docs/make_log_pictures.py`` follows the page up to the service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PICTURES = {"fit.png": "logs-fit.png", "comparison/regret.png": "logs-compare.png", "evaluation.png": "logs-evaluate.png"}


def main() -> None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    names: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        text = (DOCS / "logs.md").read_text(encoding="utf-8")
        for kind, block in re.findall(r"^```(bash|python)\n(.*?)^```", text, flags=re.S | re.M):
            if "recurrank serve" in block:
                break
            if kind == "python":
                exec(compile(block, "logs.md", "exec"), names)
            else:
                subprocess.run(["bash", "-euo", "pipefail", "-c", block], check=True)
        for made, kept in PICTURES.items():
            shutil.copyfile(made, DOCS / "img" / kept)


if __name__ == "__main__":
    main()

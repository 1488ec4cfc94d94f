"""A user's own rankers and click models: files that register them, loaded again in every process that needs them.

An experiment that is sent to another process carries the *paths* of these files, never their code. The process imports
them itself, as a command does with ``--plugin FILE``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from numba.core.errors import NumbaError

from recurrank._sources import in_a_library

ENVIRONMENT = "RECURRANK_PLUGINS"
"""Environment variable with the plugin paths of the process that started this one."""

_loading: list[Path] = []
_loaded: dict[Path, bytes] = {}  # contents of each file when it was imported: the file may change while a worker runs


def load(path: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file under its own name, once; ValueError says in one line what is wrong with it.

    Its imports are also searched for in its folder, as for a script.
    """
    file = Path(path).resolve()
    if file.suffix != ".py" or not file.is_file():
        raise ValueError(f"plugin: {path} is not a Python file; give the file that registers your ranker or click model")
    source = file.read_bytes()
    for module in list(sys.modules.values()):
        if _file(module) == file:
            if _loaded.get(file, source) != source:
                raise ValueError(
                    f"plugin: {file} has changed since this process loaded it; start the process (a worker?) again"
                )
            return module
    name = file.stem
    if not name.isidentifier() or name in sys.modules:
        raise ValueError(f"plugin: {file} cannot be imported as {name!r}, a name that is in use or invalid; rename the file")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    _loading.append(file)
    try:
        with plainly():
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"plugin: {_file_and_line(error, file)}: {type(error).__name__}: {error}") from error
    finally:
        _loading.pop()
    _loaded[file] = source
    return module


def load_all(paths: Iterable[str]) -> None:
    """Import several, and make the processes that this one starts do the same."""
    for path in paths:
        load(path)
    inherited = [path for path in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if path]
    wanted = dict.fromkeys([*inherited, *(str(Path(path).resolve()) for path in paths)])
    if wanted:
        os.environ[ENVIRONMENT] = os.pathsep.join(wanted)


def load_inherited() -> None:
    """Import the plugins of the process that started this one."""
    load_all([path for path in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if path])


def files_of(kinds: Iterable[type[Any]]) -> tuple[str, ...]:
    """The files that define the user's own among these classes; a class defined interactively has no file."""
    own = [kind for kind in kinds if kind.__module__.partition(".")[0] != "recurrank"]
    files = [_file(sys.modules.get(kind.__module__)) for kind in own]
    return tuple(dict.fromkeys(str(file) for file in files if file is not None))


def blamed(error: BaseException) -> str | None:
    """A message for an error that a plugin raised: its file, line and error; None for any other error."""
    traced = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in traced if Path(frame.filename).resolve() in _loaded]
    if not theirs:
        return None
    return f"plugin: {theirs[-1].filename}, line {theirs[-1].lineno}: {type(error).__name__}: {error}"


def refuse_while_loading() -> None:
    """ValueError if a file starts runs while it is imported: every process would start them."""
    if _loading:
        raise ValueError(f'{_loading[-1]}: it starts runs when it is imported; put them under if __name__ == "__main__":')


@contextmanager
def plainly() -> Iterator[None]:
    """Turn numba's report of an error in compiled code into a ValueError with a message of one line."""
    try:
        yield
    except NumbaError as error:
        raise ValueError(explained(error)) from None


def explained(error: BaseException) -> str:
    """The file, the line and one sentence out of the sixty lines that numba prints for an error."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    frames = re.findall(r"During: [^\n]*? at (\S+\.py) \((\d+)\)", text) or re.findall(r'File "([^"]+\.py)", line (\d+)', text)
    theirs = [(Path(file), line) for file, line in frames if not in_a_library(Path(file).resolve())]
    file, line = next(iter(theirs or [(Path(file), line) for file, line in frames]), (Path("compiled code"), "?"))
    part = text[: text.find(f"{file} ({line})")] if f"{file} ({line})" in text else text
    lines = [" ".join(words.split()) for words in part.splitlines()]
    begins = max((i for i, words in enumerate(lines) if words.startswith("Failed in ")), default=-1)
    reason = next((words for words in lines[begins + 1 :] if words), type(error).__name__)
    if reason.endswith("found for signature:"):
        reason += " " + next((words.removeprefix(">>> ") for words in lines[begins + 1 :] if words.startswith(">>> ")), "")
    return f"{file}, line {line}: numba cannot compile it: {reason[:300]}"


def _file(module: ModuleType | None) -> Path | None:
    path = getattr(module, "__file__", None)
    return Path(path).resolve() if path else None


def _file_and_line(error: BaseException, file: Path) -> str:
    """The file, and the line of it that raised the error."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        line = error.lineno
    return f"{file}, line {line}" if line else str(file)

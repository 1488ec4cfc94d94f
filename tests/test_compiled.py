"""The disk cache of compiled code: kept between processes, and never older than the code that contributes."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import Flags
from numba.core.errors import TypingError

import recurrank
import recurrank as rr
from recurrank._compiled import _KeyedFiles, contributes, hot, loop
from recurrank._sources import digest_behind
from recurrank._stopwatch import Stopwatch

SCRIPT = """
import numpy as np
from recurrank.rankers.engine import twice
from recurrank.rankers.caller import fourfold
print(fourfold(1.0), sum(fourfold.stats.cache_hits.values()))
"""

OWN = '''
from typing import Any, NamedTuple

import numpy as np

import recurrank as rr
from parts import sign
from recurrank._compiled import hot
from recurrank.clicks.model import ClickModel
from recurrank.clicks.model import register as register_model
from recurrank.rankers.ranker import Ranker, register


class State(NamedTuple):
    clicks: np.ndarray[Any, Any]


@hot
def rank(state, rng, slate):
    best, other = (0, 1) if sign() * (state.clicks[0] - state.clicks[1]) >= 0 else (1, 0)
    slate.items[0], slate.items[1] = best, other


@hot
def learn(state, slate, clicks):
    for k in range(2):
        state.clicks[slate.items[k]] += clicks[k]
    return False


class Own(Ranker):
    """The item with more clicks first."""

    name, reference, believes, uses_features, regret_bound = "own", "-", "-", False, "-"
    compiled_rank, compiled_learn = rank, learn

    def __init__(self, features, positions, rounds, seed=0):
        super().__init__(features, positions, rounds, seed)
        self.state = State(np.array([0.0, 0.0]))


register(State, Own)


class ModelState(NamedTuple):
    attraction: np.ndarray[Any, Any]


@hot
def examine(state, items, chi):
    for k in range(len(items)):
        chi[k] = 1.0 if k == 0 else SECOND


@hot
def sample(state, items, rng, clicks):
    for k in range(len(items)):
        clicks[k] = rng.random() < (1.0 if k == 0 else SECOND) * state.attraction[items[k]]


SECOND = 0.5


class OwnModel(ClickModel):
    name, reference, describes = "own-model", "-", "-"
    compiled_examine, compiled_sample = examine, sample

    def __init__(self, attraction):
        self.attraction = np.asarray(attraction, float)
        self.state = ModelState(self.attraction)


register_model(ModelState, OwnModel)

if __name__ == "__main__":
    from recurrank.simulation.loop import play

    ranker = Own(np.eye(2), 2, 1000)
    run = rr.simulate(ranker, OwnModel([0.9, 0.1]), rounds=1000, seed=1)
    print(float(run.regret[-1]).hex(), sum(play.stats.cache_hits.values()))
'''


def _run(folder: Path, *arguments: str) -> list[str]:
    # Without bytecode of Python's own, which is taken for new when a file changes within a second and keeps its length.
    done = subprocess.run([sys.executable, "-B", *arguments], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.long
def test_a_change_of_code_that_contributes_compiles_anew_and_no_other(tmp_path):
    shutil.copytree(Path(recurrank.__file__).parent, tmp_path / "recurrank", ignore=shutil.ignore_patterns("*.nbi", "*.nbc"))
    rankers = tmp_path / "recurrank" / "rankers"
    (rankers / "engine.py").write_text(
        "from recurrank._compiled import hot\nFACTOR = 2.0\n@hot\ndef twice(x):\n    return FACTOR * x\n"
    )
    (rankers / "caller.py").write_text(
        "from recurrank._compiled import hot\nfrom recurrank.rankers.engine import twice\n"
        "@hot\ndef fourfold(x):\n    return twice(twice(x))\n"
    )
    run = ("-c", SCRIPT)
    assert _run(tmp_path, *run) == ["4.0", "0"]
    assert _run(tmp_path, *run) == ["4.0", "1"]  # from the disk
    engine = rankers / "engine.py"
    engine.write_text(engine.read_text() + "\n# a remark\n")
    assert _run(tmp_path, *run) == ["4.0", "1"]
    engine.write_text(engine.read_text().replace("FACTOR * x", "FACTOR * x + 1"))
    assert _run(tmp_path, *run) == ["7.0", "0"]
    engine.write_text(engine.read_text().replace("FACTOR = 2.0", "FACTOR = 3.0"))
    assert _run(tmp_path, *run) == ["13.0", "0"]
    assert _run(tmp_path, *run) == ["13.0", "1"]


@pytest.mark.long
def test_an_edited_ranker_or_click_model_of_the_users_runs_as_it_is_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    own, parts = tmp_path / "own.py", tmp_path / "parts.py"
    own.write_text(OWN)
    parts.write_text("from recurrank._compiled import hot\n@hot\ndef sign():\n    return 1\n")
    regret, hits = _run(tmp_path, "own.py")
    assert hits == "0"
    assert _run(tmp_path, "own.py") == [regret, "1"]
    parts.write_text(parts.read_text().replace("return 1", "return -1"))  # what the ranker calls, in another file
    flipped, hits = _run(tmp_path, "own.py")
    assert hits == "0"
    assert float.fromhex(flipped) > 10 * float.fromhex(regret) + 10
    own.write_text(OWN.replace("SECOND = 0.5", "SECOND = 1.0"))  # a constant of the click model: the order no longer matters
    level, hits = _run(tmp_path, "own.py")
    assert hits == "1"  # the loop is as it was: it calls the model by its address
    assert abs(float.fromhex(level)) < 1e-9
    # others' rankers can read the same index of the compiled loop, though they cannot import the user's classes
    other = tmp_path / "elsewhere"
    other.mkdir()
    again = (
        "import numpy as np, recurrank as rr; r = rr.rankers.make('random', features=np.eye(2), positions=2, rounds=9, seed=0)"
    )
    assert _run(other, "-c", f"{again}; print(len(rr.simulate(r, rr.clicks.Cascade([0.5, 0.4]), rounds=9).rounds))") == ["9"]


def test_processes_that_compile_at_the_same_time_find_their_own_machine_code(tmp_path):
    """Numba numbers its files, and two that are written at once may get the same one."""
    keys = [(f"{number:064x}", f"{number + 1:064x}") for number in range(40)]
    keys = [(signature[::-1], code[::-1]) for signature, code in keys]

    def files():
        return _KeyedFiles(cache_path=str(tmp_path), filename_base="loop.play-1[0].py311", source_stamp=None)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: files().save(key, f"code for {key}"), keys))
    assert [files().load(key) for key in keys] == [f"code for {key}" for key in keys]
    signature, older = keys[0]
    newer = (signature, older[::-1])
    assert files().load(newer) is None
    files().save(newer, "newer")
    assert (files().load(newer), files().load(keys[0])) == ("newer", None)  # older sources take no room
    assert files().load(keys[1]) == f"code for {keys[1]}"
    files().flush()
    assert [*tmp_path.iterdir()] == []


FACTORY = """
import itertools, math, sys
from numba.core.bytecode import FunctionIdentity
from recurrank._compiled import inner, loop, rare

@inner
def one():
    return 1.0

@inner
def two():
    return 2.0

def factory(part):
    @rare
    def scaled(x):
        total = 0.0
        for i in range(3):
            total += math.sin(x + i) * math.exp(-i) / (1 + math.cos(x * i) ** 2) + math.log(2 + i + x) * math.tan(i * x)
            total -= math.atan2(x, i + 1) * math.sinh(x / (1 + i)) + math.tanh(i - x) ** 3 * math.asinh(x + i * i)
        return x * part() + 0 * total
    return scaled

ones, twos = factory(one), factory(two)

@loop
def first(x):
    return ones(x)

@loop
def second(x):
    return twos(x)

if sys.argv[1] == "numba's":
    FunctionIdentity._unique_ids = itertools.count(1000)
print(*(globals()[name](1.0) for name in sys.argv[2:]))
"""


@pytest.mark.parametrize(("numbers", "right"), [("numba's", "1.0 1.0"), ("ours", "1.0 2.0")])
def test_what_a_factory_makes_is_told_apart_though_two_processes_compiled_it(tmp_path, numbers, right):
    """One process compiles ``first``; another one loads it from disk and compiles ``second``.

    As numba numbers functions, ``second`` gives the answer of ``first``: so the sizes are such that the fault would show.
    """
    (tmp_path / "own.py").write_text(FACTORY)

    def call(*names):
        command = [sys.executable, "own.py", numbers, *names]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=True).stdout.strip()

    assert call("first") == "1.0"
    assert call("first", "second") == right


IMPLEMENTATION = """
from numba.extending import overload
from recurrank._compiled import PART
from names import double

@overload(double, jit_options=PART, strict=False)
def _double(value):
    return lambda value: 2 * value
"""
DOUBLED = """
import sys
from importlib import import_module
from recurrank import hot
from recurrank._compiled import loop
from names import double
import_module(sys.argv[1])

@loop
def twice(value):
    return double(value)

print(twice(4.0), twice.stats.cache_hits)
"""


def test_machine_code_of_a_version_with_other_modules_is_compiled_anew(tmp_path):
    """An upgrade may move code that compiled functions contain; what is on disk then names a module that has gone."""
    (tmp_path / "names.py").write_text("def double(value): ...")
    (tmp_path / "old.py").write_text(IMPLEMENTATION)
    (tmp_path / "own.py").write_text(DOUBLED)

    def call(module):
        command = [sys.executable, "own.py", module]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=True).stdout.split()

    assert call("old") == ["8.0", "Counter()"]
    assert call("old")[0] == "8.0"
    (tmp_path / "old.py").rename(tmp_path / "new.py")
    assert call("new") == ["8.0", "Counter()"]


def states_of_one_name() -> list[type[Any]]:
    def made(sign):
        class State(NamedTuple):
            clicks: np.ndarray[Any, Any]

        @hot
        def value(state):
            return sign * state.clicks[0]

        class Owner:
            compiled_value = value

        return State, Owner

    return [made(sign) for sign in (1.0, -1.0)]


@loop
def first_click(state):
    return state.clicks[0]


def test_states_with_equal_names_and_fields_are_told_apart():
    """To numba they are one type: so a ranker ran the functions of another one whose state looked alike."""
    (one, _), (other, _) = states_of_one_name()
    clicks = np.ones(2)
    first_click(one(clicks))
    first_click(other(clicks))
    assert len(first_click.overloads) == 1  # so it can be seen here
    (one, owner), (other, another) = states_of_one_name()
    contributes(one, owner)
    contributes(other, another)
    contributes(one, owner)
    first_click(one(clicks))
    first_click(other(clicks))
    assert len(first_click.overloads) == 3


def test_every_state_that_is_registered_has_a_name_of_its_own():
    states = [
        type(rr.rankers.make(name, features=np.eye(5), positions=2, rounds=10, told={"attraction": np.full(5, 0.5)}).state)
        for name in rr.rankers.names()
    ]
    assert len({state.__name__ for state in states}) == len(set(states))


def test_a_forked_process_numbers_its_functions_apart():
    ids = FunctionIdentity._unique_ids
    pid = os.fork()
    if pid == 0:
        os._exit(int(abs(next(FunctionIdentity._unique_ids) - next(ids)) < 10**6))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_digest_behind_a_class_of_the_users_covers_its_files(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import helping\nclass Mine: pass\n")
    (tmp_path / "helping.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import mine  # type: ignore[import-not-found]

    ours, first = digest_behind(recurrank.RecurRank), digest_behind(mine.Mine)
    assert first != ours == digest_behind()
    (tmp_path / "helping.py").write_text("x = 2\n")
    assert digest_behind(mine.Mine) != first


def test_a_hot_function_that_allocates_does_not_compile():
    def allocates(n):
        return np.zeros(n).sum()

    with pytest.raises((TypingError, RuntimeError)):
        hot(allocates)(3)


def test_options_of_numba_are_compared_as_numba_does():
    """By all values, whether they were set or are the defaults."""
    one, other, third = Flags(), Flags(), Flags()
    other.nrt = one.nrt  # the default, set
    third.nrt = not one.nrt
    for left, right in itertools.product((one, other, third), repeat=2):
        assert (left == right) == (left.values() == right.values())
        assert left != right or hash(left) == hash(right)
    assert one != "flags"


def test_a_stopwatch_stands_still_while_something_is_compiled():
    """Also for a function that another one compiles on the way, and not for what another thread compiles."""
    inner = numba.njit(lambda x: x + 1)
    outer = numba.njit(lambda x: inner(x) * 2)
    watch, other, began = Stopwatch(), numba.njit(lambda x: x**3), time.perf_counter()
    assert outer(1) == 4
    passed = time.perf_counter() - began
    assert watch.seconds < passed / 4
    watch, began = Stopwatch(), time.perf_counter()
    thread = threading.Thread(target=other, args=(2.0,))
    thread.start()
    thread.join()
    assert watch.seconds >= time.perf_counter() - began - 0.01


def test_compiled_code_has_matrix_products_though_scipy_is_imported_only_for_them(tmp_path):
    program = """
import sys
import numpy as np
from recurrank._compiled import compiled, loop
add = compiled(lambda x: x + x)
add(np.ones(3))
assert "scipy.linalg" not in sys.modules
product = compiled(lambda x, y: np.dot(x, y))
assert product(np.full((2, 2), 3.0), np.eye(2)).tolist() == [[3, 3], [3, 3]]
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_compiling_leaves_the_garbage_collector_as_it_was():
    @loop
    def twice(x):
        return x + x

    for collecting in (True, False):
        (gc.enable if collecting else gc.disable)()
        try:
            twice(3 if collecting else 3.5)
            assert gc.isenabled() == collecting
        finally:
            gc.enable()


def test_generators_are_not_kept():
    """Loops do not count references: a server that draws with ever new generators would keep them all."""
    features = np.random.default_rng(0).standard_normal((20, 3))
    ranker = rr.rankers.make("recurrank", features=features, positions=2, rounds=1000, seed=0)

    def references() -> int:
        for _ in range(10):
            ranker.rank()
        return sys.getrefcount(ranker.rng)

    assert references() == references()

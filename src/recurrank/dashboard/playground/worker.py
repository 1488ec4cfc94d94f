"""A process that runs one simulation: ``python -m recurrank.dashboard.playground.worker``.

It warms up, waits for a line of JSON on standard input, runs the simulation, and prints its events: one line each, with name,
tab and JSON. It runs at low priority (the service must go on answering), limits its memory, and ends when its reader does.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from recurrank import clicks, rankers
from recurrank._arrays import Floats
from recurrank._stopwatch import Stopwatch
from recurrank.clicks.model import ClickModel
from recurrank.clicks.optimum import WARNING
from recurrank.dashboard.knowledge import boxes
from recurrank.dashboard.playground.setup import CLUSTERS, DEFAULTS, Setup, read
from recurrank.plugins import load_inherited
from recurrank.problem import Problem, synthetic
from recurrank.rankers.contextual import BASELINES
from recurrank.rankers.ranker import Ranker
from recurrank.requests import Clusters
from recurrank.seeds import stream
from recurrank.simulation.loop import Simulation
from recurrank.simulation.requests import RequestSimulation

Say = Callable[[str, Any], None]

POINTS = 200
"""Most points of each curve."""
OFTEN = 0.1
"""Least seconds between two messages about curves."""
MEMORY = 6 << 30
"""Most bytes of address space of a simulation, including libraries."""
NICE = 10


def main() -> None:
    """Warm up, wait for a simulation, run it."""
    os.nice(NICE)
    _limit_memory()
    load_inherited()
    warm_up(lambda: bool(select.select([sys.stdin], [], [], 0)[0]))
    line = sys.stdin.readline()
    if not line:
        return
    try:
        play(msgspec.json.decode(line, type=Setup), _say)
    except (ValueError, msgspec.MsgspecError) as error:
        _say("problem", {"detail": str(error)})
    except MemoryError:
        _say("problem", {"detail": "This takes more memory than a simulation may have; choose fewer items or other rankers."})
    except BrokenPipeError:  # the reader has gone
        os._exit(0)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


def _say(name: str, document: Any) -> None:
    sys.stdout.write(f"{name}\t{msgspec.json.encode(document).decode()}\n")
    sys.stdout.flush()


def warm_up(asked: Callable[[], bool]) -> None:
    """Load or compile the code of a default simulation, until ``asked`` returns True."""
    usual, _ = read(DEFAULTS)
    assert usual is not None
    small = msgspec.structs.replace(usual, items=50, positions=3, rounds=200)
    problem = _problem(small)
    model = _model(small, problem)
    for name in small.rankers:
        if asked():
            return
        Player(name, Simulation(_ranker(small, name, problem), model, small.seed)).play(200)


def _problem(setup: Setup) -> Problem:
    if setup.problem == "movielens":
        from recurrank.experiments.movielens import packaged

        prepared = packaged()
        return prepared.problem(setup.seed % len(prepared.features)).shuffled(setup.seed)
    if setup.problem == "log":
        attraction = _fitted(setup).attraction
        return Problem(np.eye(len(attraction)), attraction)
    return synthetic(items=setup.items, dim=setup.dim, seed=setup.seed)


def _fitted(setup: Setup) -> ClickModel:
    """The model that was fitted to the log's largest query, its items in random order."""
    return clicks.fitted.from_file(f"{setup.fitted}:{setup.clicks}", stream(setup.seed, "items"))


def _model(setup: Setup, problem: Problem) -> ClickModel:
    """The click model with the parameters of the form."""
    return _fitted(setup) if setup.problem == "log" else _made(setup, problem.attraction)


def _made(setup: Setup, attraction: Floats) -> ClickModel:
    given, positions, items = setup.parameters, np.arange(1, setup.positions + 1), len(attraction)
    match setup.clicks:
        case "position-based":
            parameters: dict[str, Any] = {"examination": positions ** -given["pbm_power"]}
        case "dependent-click":
            parameters = {"continuation": np.full(setup.positions, given["dcm_continuation"])}
        case "user-browsing":  # by default 1 / distance^0.5
            usual = clicks.UserBrowsing.defaults(items, setup.positions)["examination"]
            parameters = {"examination": usual ** (2 * given["ubm_power"])}
        case "dynamic-bayesian":
            satisfied = np.full(items, given["dbn_satisfaction"])
            parameters = {"satisfaction": satisfied, "continuation": given["dbn_continuation"]}
        case "click-chain":
            parameters = {f"alpha{n}": given[f"ccm_alpha{n}"] for n in (1, 2, 3)}
        case _:
            parameters = {}
    return clicks.make(setup.clicks, attraction, setup.positions, **parameters)


def _ranker(setup: Setup, name: str, problem: Problem) -> Ranker:
    size = {"positions": setup.positions, "rounds": setup.rounds, "seed": setup.seed}
    return rankers.make(
        name, features=problem.features, **size, told={"attraction": problem.attraction}, **setup.options.get(name, {})
    )


class Player:
    """One ranker of a simulation, and the part of its curve that was not sent yet."""

    def __init__(self, name: str, simulation: Simulation | RequestSimulation) -> None:
        self.name, self.simulation = name, simulation
        self.simulation.prepare()
        self.rounds, self.regret, self.clicks = [0], [0.0], [0]
        self.seconds, self._blocks = 0.0, -1

    def play(self, until: int) -> None:
        """Run up to this round."""
        watch, simulation = Stopwatch(), self.simulation
        while simulation.round < until:
            simulation.advance(until)
        self.seconds += watch.seconds
        self.rounds.append(simulation.round)
        lost = simulation.lost.sum() if isinstance(simulation, Simulation) else simulation.regret
        self.regret.append(float(lost))
        self.clicks.append(simulation.clicked)

    def tell(self, say: Say) -> None:
        """Send what is new."""
        if self.rounds:
            say("points", {"ranker": self.name, "rounds": self.rounds, "regret": self.regret, "clicks": self.clicks})
            self.rounds, self.regret, self.clicks = [], [], []
        history = self.simulation.ranker.knowledge().history
        if history is not None and len(history) != self._blocks:
            self._blocks = len(history)
            self.tell_flow(say)

    def tell_flow(self, say: Say) -> None:
        """Send the blocks of algorithms that keep their history."""
        ranker = self.simulation.ranker
        known = ranker.knowledge()
        if known.history is not None:
            say("flow", {"boxes": boxes(known), "positions": ranker.positions})


def _catalogue(setup: Setup, say: Say) -> Callable[[str], Simulation]:
    """One catalogue for all visitors; returns a function that creates the simulation of a ranker."""
    problem = _problem(setup)
    model = _model(setup, problem)
    optimum = model.optimum(setup.positions)
    sizes = {"items": len(problem.attraction), "dim": problem.features.shape[1], "rounds": setup.rounds}
    warning = "" if optimum.exact else WARNING
    say("start", {**sizes, "best": float(optimum.expected.sum()), "warning": warning})
    return lambda name: Simulation(_ranker(setup, name, problem), model, setup.seed)


def _requests(setup: Setup, say: Say) -> Callable[[str], RequestSimulation]:
    """Every visitor has their own candidates, from one of several clusters, and thus their own best slate."""
    requests = Clusters(items=setup.items, dim=setup.dim, candidates=setup.candidates, clusters=CLUSTERS, seed=setup.seed)
    model = _made(setup, np.full(setup.candidates, 0.5))
    say("start", {"items": setup.items, "dim": setup.dim, "rounds": setup.rounds, "best": None, "warning": ""})
    size: dict[str, Any] = {"positions": setup.positions, "rounds": setup.rounds, "seed": setup.seed, "dim": setup.dim}

    def begun(name: str) -> RequestSimulation:
        kind = BASELINES.get(name) or rankers.registered()[name]
        return RequestSimulation(kind(**size, **setup.options.get(name, {})), model, requests, setup.seed)

    return begun


def play(setup: Setup, say: Say) -> None:
    """Run all rankers in turn, so that their curves grow together."""
    marks = np.unique(np.linspace(0, setup.rounds, min(POINTS, setup.rounds) + 1).astype(int))[1:].tolist()
    begun = _requests(setup, say) if setup.problem == "requests" else _catalogue(setup, say)
    players: list[Player] = []
    for name in setup.rankers:
        say("ready", {"ranker": name})
        players.append(Player(name, begun(name)))
        players[-1].play(marks[0])
        players[-1].tell(say)
    told = time.monotonic()
    for mark in marks[1:]:
        for player in players:
            player.play(mark)
            if time.monotonic() - told >= OFTEN:
                told = time.monotonic()
                for other in players:
                    other.tell(say)
    for player in players:
        player.tell(say)
        player.tell_flow(say)
    say("done", {"seconds": {player.name: player.seconds for player in players}})


if __name__ == "__main__":
    main()

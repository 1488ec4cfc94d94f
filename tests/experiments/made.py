"""Results made up for tests of what is done with results."""

from __future__ import annotations

import numpy as np

from recurrank.experiments.experiment import Experiment, Result, code_of


def made_result(experiment: Experiment, final: float = 1.0) -> Result:
    """A row as it would come back, with a straight line for regret."""
    environment = experiment.environment
    rounds = np.unique(np.geomspace(1, environment.rounds, 20).round().astype(np.int64))
    return Result(
        id=experiment.id,
        environment=environment.name,
        ranker=experiment.ranker,
        run=experiment.run,
        items=environment.items,
        dim=environment.dim,
        positions=environment.positions,
        rounds=environment.rounds,
        data=environment.source.data,
        code=code_of(experiment),
        checkpoints=rounds,
        regret=final * rounds / environment.rounds,
        clicks=3,
        seconds=1.0,
        optimum="exact",
    )

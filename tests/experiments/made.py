"""Results made up for tests of what is done with results."""

from __future__ import annotations

import numpy as np

from recurrank.experiments.experiment import Experiment, Result, result_of
from recurrank.simulation.run import Run


def made_result(experiment: Experiment, final: float = 1.0) -> Result:
    """A row as it would come back, with a straight line for regret."""
    horizon = experiment.environment.rounds
    rounds = np.unique(np.geomspace(1, horizon, 20).round().astype(np.int64))
    return result_of(experiment, Run(rounds, final * rounds / horizon, np.full(len(rounds), 3), seconds=1.0))

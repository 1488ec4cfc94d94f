"""A ranker meets a click model, a million rounds at a time."""

from recurrank.simulation.run import Run, simulate

__all__ = ["Run", "simulate"]

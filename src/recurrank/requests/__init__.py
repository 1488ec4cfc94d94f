"""Streams of requests: every visitor's own candidates, for simulations (:func:`recurrank.simulate` with ``requests=``)."""

from recurrank.requests.changing import Churn, Drift, Leader
from recurrank.requests.streams import (
    Clusters,
    Context,
    Log,
    Orthogonal,
    Requests,
    Uniform,
    Users,
    Visitors,
    Zipf,
)
from recurrank.requests.world import World

__all__ = [
    "Churn",
    "Clusters",
    "Context",
    "Drift",
    "Leader",
    "Log",
    "Orthogonal",
    "Requests",
    "Uniform",
    "Users",
    "Visitors",
    "World",
    "Zipf",
]

"""Shared settings of the tests: hypothesis without deadlines (compilation is slow once), and small problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import recurrank as rr

settings.register_profile(
    "recurrank", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("recurrank")


@pytest.fixture
def problem():
    return rr.synthetic(items=40, dim=4, seed=3)


@pytest.fixture
def position_model(problem):
    return rr.clicks.PositionBased(problem.attraction, examination=1 / np.arange(1, 6))

"""Rolling a ranker out: comparing it with the current ranking, with results that are valid at all times."""

from recurrank.rollout.assignment import arm_of, unit_of
from recurrank.rollout.brake import Brake, slates_until_stopped
from recurrank.rollout.interleaving import Interleaved, Preference, probabilistic, team_draft
from recurrank.rollout.ramp import affordable, ramp
from recurrank.rollout.sequence import Arm, ArmComparison

__all__ = [
    "Arm",
    "ArmComparison",
    "Brake",
    "Interleaved",
    "Preference",
    "affordable",
    "arm_of",
    "probabilistic",
    "ramp",
    "slates_until_stopped",
    "team_draft",
    "unit_of",
]

"""Rolling a ranker out: comparing it with the present ranking while it runs, as often as one likes."""

from recurrank.rollout.interleaving import Interleaved, Preference, probabilistic, team_draft
from recurrank.rollout.sequence import Arm, ArmComparison

__all__ = ["Arm", "ArmComparison", "Interleaved", "Preference", "probabilistic", "team_draft"]

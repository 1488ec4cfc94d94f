"""The paper's theory as code that can be run: its bounds, and a monitor of its lemmas."""

from recurrank.theory.bounds import lower_rate, upper_bound, upper_rate
from recurrank.theory.monitor import Verdict, Watch, watch

__all__ = ["Verdict", "Watch", "lower_rate", "upper_bound", "upper_rate", "watch"]

"""The paper's theory as code: its bounds, and a monitor of its lemmas."""

from recurrank.theory.bounds import lower_rate, upper_bound, upper_rate
from recurrank.theory.monitor import Certificates, Verdict, Watch, certificates, watch

__all__ = ["Certificates", "Verdict", "Watch", "certificates", "lower_rate", "upper_bound", "upper_rate", "watch"]

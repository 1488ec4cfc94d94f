"""How users click: one model per file; ``assumptions`` checks the paper's assumptions on them."""

from recurrank.clicks import assumptions
from recurrank.clicks.bayesian import DynamicBayesian
from recurrank.clicks.browsing import UserBrowsing
from recurrank.clicks.cascade import Cascade
from recurrank.clicks.chain import ClickChain
from recurrank.clicks.dependent import DependentClick
from recurrank.clicks.document import DocumentBased
from recurrank.clicks.factored import Factored
from recurrank.clicks.fitted import Fitted, load
from recurrank.clicks.mixture import Mixture
from recurrank.clicks.model import ClickModel
from recurrank.clicks.plain import plain
from recurrank.clicks.position import PositionBased
from recurrank.clicks.presets import make, names
from recurrank.clicks.setwise import SetDependent

__all__ = [
    "Cascade",
    "ClickChain",
    "ClickModel",
    "DependentClick",
    "DocumentBased",
    "DynamicBayesian",
    "Factored",
    "Fitted",
    "Mixture",
    "PositionBased",
    "SetDependent",
    "UserBrowsing",
    "assumptions",
    "load",
    "make",
    "names",
    "plain",
]

"""An oracle for simulations: Anchored, told P(examined | slate, clicks above) with every answer, which no real log has.

It explores as Anchored does, and all its positions are the anchor. Its advantage over Anchored is the price of not knowing
the click model.
"""

from __future__ import annotations

from recurrank.rankers.anchored import Anchored


class Told(Anchored):
    """Anchored, told how probable it was that each position was examined; for simulations only."""

    name = "told"
    believes = "what it is told"
    told = True

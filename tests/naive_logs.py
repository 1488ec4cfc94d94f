"""Literal click models: the probability of a page's clicks, by following everything that a user might do."""

from __future__ import annotations


def page_probability(name, page, clicks, a, s=None, e=None, g=1.0, alphas=None):
    """P(clicks on page). ``a``: attraction by item; ``s``: satisfaction by item (dbn, sdbn) or position (dcm)."""
    if name in ("pbm", "ubm"):
        probability, last = 1.0, len(page) - 1
        for k, (item, clicked) in enumerate(zip(page, clicks, strict=True)):
            p = a[item] * (e[k] if name == "pbm" else e[k][last])
            probability *= p if clicked else 1 - p
            if clicked:
                last = k
        return probability

    def reads(k):
        """From position k on, which is examined."""
        if k == len(page):
            return 1.0
        item = page[k]
        here = a[item] if clicks[k] else 1 - a[item]
        stops = 0.0 if any(clicks[k + 1 :]) else 1.0
        if not clicks[k]:
            on = alphas[0] if name == "ccm" else g
            return here * ((1 - on) * stops + on * reads(k + 1))
        if name == "ccm":
            on = alphas[1] * (1 - a[item]) + alphas[2] * a[item]
        else:
            satisfied = {"cm": lambda: 1.0, "dcm": lambda: s[k]}.get(name, lambda: s[item])()
            on = (1 - satisfied) * g
        return here * ((1 - on) * stops + on * reads(k + 1))

    return reads(0)

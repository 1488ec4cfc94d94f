"""See it learn: pages over a running service, and a playground for simulations.

``app.py`` puts it together. A page (``pages.py``) is a frame without data, rendered here; its scripts (``static/``) fetch what
it shows from ``data.py`` and listen to ``live.py``. ``knowledge.py`` is the one place that knows what which ranker can tell.
"""

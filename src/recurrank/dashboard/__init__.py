"""The dashboard: pages over a running service, and a playground for simulations.

``app.py`` combines the parts. A page (``pages.py``) is rendered here as a frame without data; its scripts (``static/``) fetch
data from ``data.py`` and listen to ``live.py``. Only ``knowledge.py`` knows what each kind of ranker can tell about itself.
"""

"""Rankers as a service: durable, idempotent, learning by the same code as the library.

The state of a ranker is a fold of its log (``fold.py``). A store (``store/``) keeps the log and decides, in the transaction
that writes an event, what becomes of a slate. The service (``service.py``) brings requests to the store in groups, folds what
was written, and ranks with copies of what was folded. Nothing here knows of HTTP but ``http/``.
"""

"""Simulations that compare rankers on the server: ``setup.py`` reads the form, ``worker.py`` runs a simulation in its own
process, ``runner.py`` starts and ends such processes, ``routes.py`` streams their events to the page.
"""

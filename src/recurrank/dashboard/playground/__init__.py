"""Rankers against each other on the server: ``setup.py`` reads what is asked for, ``worker.py`` plays it in its own process,
``runner.py`` starts and ends such processes, ``routes.py`` brings what they say to the page.
"""

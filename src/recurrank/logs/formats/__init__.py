"""Formats of logs: one module per format. Each turns a file into batches of pages (``pages.py``), some rows at a time."""

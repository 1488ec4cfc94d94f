"""Formats of logs: one file per format. Each turns a file into batches of pages (``pages.py``), some rows at a time."""

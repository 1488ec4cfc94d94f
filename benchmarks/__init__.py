"""Every claim on speed and memory, measured as a ratio to a plain baseline in the same run: ``make bench``."""

"""Every speed and memory claim, measured as a ratio against something plain in the same run: ``make bench``."""

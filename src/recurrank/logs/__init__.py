"""Logs of what was shown and clicked: sessions from anywhere, click models fitted to them, off-policy evaluation."""

"""Logs of shown and clicked items: sessions from many formats, click models fitted to them, off-policy evaluation."""

"""The field's rankers of requests, to compare with: one algorithm per file, in the interface of :class:`recurrank.Anchored`."""

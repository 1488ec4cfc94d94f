"""What another ranking would have earned on a log: policies, one file per family of estimators, and the report."""

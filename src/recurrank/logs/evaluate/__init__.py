"""The clicks that another ranking would have got on a log: policies, one module per family of estimators, the report."""

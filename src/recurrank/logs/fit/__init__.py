"""Click models fitted to a log: one file per family of models, one way to climb a likelihood, one way to set priors."""

"""Click models fitted to a log: one module per family of models, one for the likelihood's maximisation, one for the priors."""

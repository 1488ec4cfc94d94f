"""What is run: the paper's experiments as data, and the figures."""

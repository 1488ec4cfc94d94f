"""Catalogues in files: .npy, Parquet, the memory maps that Parquet is converted to, and partitions read by a cluster."""

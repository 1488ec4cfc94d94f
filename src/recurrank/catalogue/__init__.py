"""Items and their features: in memory, in CSV, Parquet and .npy files, in maps of large files, and on a cluster."""

from recurrank.catalogue.catalogue import Catalogue, as_catalogue

__all__ = ["Catalogue", "as_catalogue"]

"""Which items to explore: G-optimal designs, volumetric spanners, and scans of large catalogues."""

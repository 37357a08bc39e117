"""Many simulations of one scenario with fields changed: a grid or a sample, on processes or on a
Dask cluster.
"""

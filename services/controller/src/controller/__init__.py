"""Reconciles the GpuFractioningConfig into the node daemons, and says why they do not work."""

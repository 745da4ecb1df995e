"""mpsd: keeps NVIDIA's MPS control daemon running, rightly configured, and tells the truth about it."""

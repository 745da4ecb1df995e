"""
The demo: fractiond at work on a real containerd, shown and checked step by step. Run it by scripts/demo.
"""

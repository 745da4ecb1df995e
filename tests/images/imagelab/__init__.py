"""
What `scripts/build-images` made: looked into, and run by runc as a node runs it.
"""

"""
Builders of the controller's values, and a cluster that does what a plan says.
"""

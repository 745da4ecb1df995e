"""Specs of the resource: right ones, wrong ones, and those at the bounds between."""

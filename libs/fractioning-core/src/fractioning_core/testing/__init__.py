"""Builders and fakes for tests of code that uses this library."""

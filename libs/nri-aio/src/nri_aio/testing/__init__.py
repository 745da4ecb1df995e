"""
What plugins are tested with: a runtime in the test's own event loop, and one end of a connection to write scripts for.
"""

from nri_aio.testing.runtime import Creation, CreationFailed, FakeRuntime
from nri_aio.testing.script import Script, scripted

__all__ = ["Creation", "CreationFailed", "FakeRuntime", "Script", "scripted"]

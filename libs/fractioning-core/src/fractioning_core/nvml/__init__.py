"""The driver's management library, and the only package that knows pynvml: readings in frozen values, off the loop."""

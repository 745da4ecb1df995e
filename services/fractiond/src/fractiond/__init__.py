"""fractiond: the NRI plugin that puts containers behind their GPU memory limit."""

"""
The simulation kit: an NVIDIA driver that is not there.

What is made by `scripts/toolchain simgpu`, and what each module gives:

    programs  where the simulated NVML and the simulated r615 control daemon lie
    state     the machine that they simulate, written to the file that they read
"""

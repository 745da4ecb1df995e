"""
The simulation kit: an NVIDIA driver that is not there.

What is made by `scripts/toolchain simgpu`, and what each module gives:

    programs   where the simulated NVML, the simulated r615 control daemon and their companions lie
    state      the machine that they simulate, written to the file that they read
    processes  real processes that hold simulated GPU memory
    reader     NVML through that library, in a process of its own
    limits     the memory limits that the simulated driver enforces, read and changed behind its back
"""

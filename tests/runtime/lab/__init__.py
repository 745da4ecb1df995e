"""
A container runtime of one's own: real containerd and runc, driven as a kubelet drives them, gone without a trace.

Tests, the demo and the bench share it. What each module gives:

    containerd  a private containerd in a temporary directory, and its restart and removal
    cri         pods and containers through the runtime's own interface
    devices     device nodes and CDI specs of GPUs that are not there
    image       OCI images made from static busybox
    mounts      directories that a program finds at other paths, as in a container
    program     one of our own programs, asked on its health port; fractiond and mpsd say how each is started
    mpsclient   a client of the MPS control daemon inside a container
    process     any other program, with its log lines and its use of the machine
"""

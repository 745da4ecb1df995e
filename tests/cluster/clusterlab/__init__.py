"""
A Kubernetes of several nodes on one machine: real servers, kubelets, containerds and network, simulated GPUs.

A node is a process with network, mount, PID and UTS namespaces of its own, in which a containerd and a kubelet run. The
control plane shares one more network namespace. Nothing has a name outside of the cluster's directory but cgroups, so
that ending the processes takes everything else along.

The cluster:

    layout             where things are: the cluster's directory, and each worker's
    workers            which workers there are, and their GPUs
    machine            whether this machine can run it at all
    programs, command  what is run
    parts              the cluster's processes, known by a variable of their environment
    network            a bridge, and a cable from it to each worker
    gateway            the one door from this machine into the cluster's network
    controlplane       etcd and the three servers
    configs            the texts that the programs of a worker read
    worker             one worker: its start, its end, its images, a look inside
    cluster            all of it, up and down

What is not there, simulated or by a stand-in:

    nvidia             driver and container toolkit of a worker; nvidia_runtime gives containers what they ask of it
    gpuoperator        the objects that the GPU Operator has in a cluster
    nrimode            the GPU Operator's other mode, with nriplugin in the place of its plugin
    binder             the KAI scheduler; placement decides for it

What tests use:

    client             questions to the API server
    release            the product, installed by helm
    fractioningconfig  its resource, changed and put back
    metricspage        what metricsd serves
    processes          what runs in a worker's containers
    pods               pods as their authors write them

What installations are looked at with:

    life               a release from the packed chart to its end, and what was seen of it
    tenancy            fractional pods meanwhile, and who watches them
    departure          a release that goes, or all that there is of it
    inventory          everything that is in the cluster

What security is looked at with:

    tenantpods         fractional pods of a tenant who looks around in them
    accounts           the API server as the holder of a token sees it
    confinement        what a process may do; connections, whom it talks to
    daemoncopies       a daemon's container with something taken from it
    strays             a control daemon that somebody has started by hand

What faults are measured with:

    witness            sees what really runs, and whether its fence is there; spells sums up
    faults             tenants, new pods and the witness around a fault; outcomes keeps what it did
    sabotage           what is done to a cluster
    smallrun           a worker whose /run can be full
    wallclock          the clock of the product's programs, moved; by clockshift.c, which clockruntime preloads
"""

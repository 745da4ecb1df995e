"""
A Kubernetes API of one's own: real etcd and kube-apiserver on loopback, gone without a trace.

What each module gives:

    certificates       a certificate authority, the server's certificate and the key that signs tokens
    controlplane       both servers, their stop and start, an administrator's way in, and the audit log
    audit              who has asked for what, by that log
    objects            nodes, ServiceAccounts, rights and tokens
    pod                what the kubelet would give a container: two variables, a certificate authority and a token
    place              a node, the account of the daemon on it, and mpsd in a pod there
    front, gate        TLS servers before the API server: one that is strict about tokens, one that makes trouble

And for a whole cluster:

    controllermanager  the controllers of Kubernetes that ours relies on
    kubelets           stand-ins for the scheduler and the kubelets, whose pods are as well as they are told to be
    jobs               a stand-in that runs Jobs
    containers         a container of a manifest as a program on this machine
    helm               the real helm, and the chart
    cluster            all of that together
    controller         the controller, as the chart's Deployment would run it
    scene              one test's share of the cluster
    rights             the controller's rights, and what it is like without one of them
    policies           what is read of the GPU Operator and of OLM
"""

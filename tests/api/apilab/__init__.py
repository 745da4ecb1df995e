"""
A Kubernetes API of one's own: real etcd and kube-apiserver on loopback, gone without a trace.

What each module gives:

    certificates   a certificate authority, the server's certificate and the key that signs tokens
    controlplane   both servers, the API server's stop and start, and an administrator's way in
    front          a TLS server before the API server that accepts the newest token only
    objects        nodes, ServiceAccounts, rights and tokens
    place          a node, the account of the daemon on it, and mpsd in a pod there
    pod            what the kubelet would give a container: two variables, a certificate authority and a token
"""

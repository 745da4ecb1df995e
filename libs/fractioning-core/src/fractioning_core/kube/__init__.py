"""
The Kubernetes API, and the only owner of kubernetes_asyncio.

    errors       what the API server says, on the branches of our error tree
    incluster    where it is and who we are, for a process in a pod
    tokens       the bearer token, re-read when it rotates
    vendor       the few modules of kubernetes_asyncio that are needed, without the rest
    transport    one request at a time, with a deadline
    nodes        what we ask of nodes
"""

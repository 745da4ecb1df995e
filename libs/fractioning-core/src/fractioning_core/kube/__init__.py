"""
The Kubernetes API, and the only owner of kubernetes_asyncio.

    errors        what the API server says, on the branches of our error tree
    incluster     where it is and who we are, for a process in a pod
    tokens        the bearer token, re-read when it rotates
    vendor        the few modules of kubernetes_asyncio that are needed, without the rest
    transport     one request with a deadline, or a stream that must not fall silent

    collections   the objects of one kind, and their paths
    objects       one object read, written or removed
    nodes         what we ask of nodes

    mirror        a collection as it is now: list and watch, for ever
    watchqueries  how that is asked for
    watchstream   bytes of a watch into events
    watchevents   those events, and the pages of a list
    reflection    what each event makes of what is known
    pace          how long to wait before asking again

    election      one leader at a time
    lease         what a Lease says, and when it may be taken

    events        tells people what happened to an object
    eventbook     what waits to be told, and what was told already
    timestamps    moments as Kubernetes writes them
"""

"""
What `scripts/demo --cluster` shows: the story of a user, from installation to a fault and its repair.

    show        the steps in order, and what becomes of an interruption
    acts        each step
    prometheus  a Prometheus that scrapes the cluster's pods
"""

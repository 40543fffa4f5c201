"""What an operator asks of a cluster, by area: requests built, answers read, nothing sent.

Each function returns a ``Call``, or a ``Many`` where a call is about many items; ``Admin``
hands them to the router. No I/O and no clock here.
"""

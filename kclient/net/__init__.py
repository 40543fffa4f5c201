"""Sockets: streams, connections that negotiate and authenticate, a pool of them."""

"""Nodes on real sockets and clocks."""

"""Nodes of the ad hoc protocols on a real network: UDP multicast, no server, nothing to configure (L1)."""

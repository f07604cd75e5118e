"""Adaptors of an overlay's broker (O6): each listens on the system channel and takes one kind of decision.

`topology.py` rebuilds the network, `home.py` chooses a client's home broker, `load.py` relieves an overloaded
broker, `placement.py` moves a modulator to where it saves traffic. `make.py` lists them; a new one is added there.
"""

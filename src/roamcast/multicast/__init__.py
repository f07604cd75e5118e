"""Ad hoc nodes on a real network (L1): UDP multicast, no server, nothing to configure.

`roamcast node` starts one (docs/reference/NODE.md). The nodes are those of `adhoc`; this package gives them
sockets.

- `running.py`: `RunningNode`, made from `NodeSettings`; `host.py`: the runtime of one node; `disk.py`: what
  survives a crash
- Network: `multicast.py` (`MulticastAir`), `sockets.py`, `interfaces.py`
- Frames: `frames.py` (bytes), `sealing.py` (encryption for the group), `signing.py` and `statements.py` (signatures
  of the origin), `bonds.py` (a cheap tag between two nodes instead), `keys.py`, `peers.py`, `replay.py`, `drops.py`
  (why a datagram was dropped)
- `text_form.py`: lines that people type and read; `carried.py`: the mark of events that a gateway brought
"""

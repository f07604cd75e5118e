"""MQTT clients of an overlay (O): what `protocol.kind = "overlay"` makes of a live broker.

The process runs one broker of the overlay and, for each MQTT client, one client of the paper (`guests.py`).

- `core.py`: `OverlayCore`, the state machine; `bordering.py`: publishing and subscribing
- `seeking.py`, `following.py`: finds a returning client's session and moves it here
- `underlay.py`, `mail.py`, `between.py`: what processes send to each other over their links
"""

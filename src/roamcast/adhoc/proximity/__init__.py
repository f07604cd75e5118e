"""STEAM's proximity protocol (S): an event reaches every host that is inside its proximity and subscribed to it.

`node.py` holds `Proximity`; `params.py` its settings and presets, `messages.py` what nodes send to each other.

- Finding proximities: `discovery.py` (beacons, joining and leaving groups), `relevant.py` (one entry of its list),
  `groups.py` (24-bit group ids), `interests.py` (this node's subscriptions).
- Producing: `producing.py` announces and raises events; `recovery.py` caches them for consumers that missed some.
- Forwarding: `forwarding.py` decides who repeats a message, when, and how far it goes.
- Consuming: `delivering.py` applies filters and proximity, `inbox.py` finds gaps in streams, `ordering.py` delivers
  in the sender's order, `clocks.py` estimates a message's age without trusting the sender's clock.
"""

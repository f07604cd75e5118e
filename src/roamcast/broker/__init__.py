"""Brokers as state machines: they route events, keep client sessions, and hand them over when clients move.

There is one broker for all clients. Clients of the papers meet it at `border.py`, MQTT clients at
`mqtt/mqtt_border.py`. `server` runs it on sockets, `sim` in virtual time.

- `broker.py`: `Broker`, the composition; `params.py` its settings; `client.py`, the papers' client
- Routing (R1, R2): `router.py` tells where an event goes, by the subscriptions in `wishes.py`; `routing.py` has the
  five strategies, `advertising.py` and `gated.py` add advertisements, `finding.py` indexes filters
- Neighbours: `neighbours.py`, `stream.py` (nothing lost, in order, across broken links), `frames.py` (one frame a
  tick), `messages/` (all message types)
- Sessions (R3): `session.py`, `window.py` (unfinished deliveries), `relocation.py` (a client attaches elsewhere),
  `transfer.py` (a session as a value), `arrows.py` (where clients were last), `memory.py`, `handover.py` (the
  interface)
- Extensions: `logical/` (filters that follow a client's place), `mesh/` (forward to where the client will be),
  `overlay/` (brokers on moving hosts), `modulators/` (client code in a broker), `resubscribing.py` (the papers'
  naive baselines)
"""

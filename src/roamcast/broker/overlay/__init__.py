"""Opportunistic overlays (O): brokers on moving hosts that find each other and relocate their clients' modulators.

- `broker.py`: `OverlayBroker`, the composition; `client.py`: `OverlayClient`; `relay.py`: a host that only forwards
- Topology (O2, O3): `search.py` (expanding ring search), `topology.py` (table, links, routes), `acquaintance.py`
- Traffic (O5, O7): `flows.py` (in order, once, over any path), `directory.py` (subscriptions and producers),
  `posts.py` (where a modulator works), `losses.py` (crashed brokers), `discarding.py` (which waiting event to drop)
- Relocation (O4): `relocation.py` describes the eight steps; `departing.py` and `arriving.py` are the two ends,
  `moves.py` and `pieces.py` their state
- Decisions (O6): `monitor.py`, `gauge.py`, `broker_manager.py`, `client_manager.py`, `channel.py`, `services.py`,
  and a class for each decision in `adaptors/`
- `sessions.py`, `tables.py`, `messages.py`, `params.py`, `modelled.py` (costs in simulations); `mqtt/` serves MQTT
  clients
"""

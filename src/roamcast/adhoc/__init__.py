"""Protocols for hosts that only have a radio: no broker, no server, every host decides for itself.

Three protocols, each a state machine behind `node/boundary.py`, so that the simulator and a LAN (`multicast`) run
the same code.

- `flooding.py`: `AdhocFlooding` and `BrokerFlooding`, the baseline. Every host repeats every event once.
- `proximity/`: `Proximity`, STEAM's protocol (S). Events reach hosts inside a producer's proximity that subscribed.
- `context/`: `ContextNode`, context-aware publish/subscribe (C). Events and subscriptions meet where their regions
  overlap.

The parts below are shared:

- `geocast.py`, `geocast_params.py`, `journeys.py`, `routes.py`, `nearness.py`: send a message towards a region,
  then flood it inside that region (C8)
- `walks.py`, `faces.py`: route around voids (C13)
- `neighbours.py`: beacons and the table of hosts within one hop (C7)
- `tables.py`, `until.py`: bounded tables whose rows expire
"""

"""The broker that MQTT clients use: sessions, local matching, routing and roaming, as one state machine without I/O.

`core.py` holds `Core`. Everything that changes lasting state is an input (`inputs.py`); the server logs inputs
before it performs their effects (`effects.py`), so reading the log again restores a killed broker. docs/PROTOCOL.md
numbers the rules.

- Clients: `mqtt_border.py` (joins all of this to the broker), `admission.py` (connect, take over, expire),
  `owners.py` (which user has a client id), `subscribing.py`, `params.py`
- Publishing: `publishing.py`; `events.py`, `content.py` and `payloads.py` (messages as events), `properties.py`
  (filters in user properties); `audience.py` (which clients match), `wishes.py` (in which form each gets it),
  `local_delivery.py`; `ahead.py` (QoS 0 behind what the disk has not stored yet)
- Kept messages: `keeping.py`, `retained.py`, `giving.py` (to new subscriptions), `lasting.py` (published with
  `persist`), `groups.py` (shared subscriptions)
- Places: `whereabouts.py` (clients now), `drift.py` (carried forward by velocity), `earlier.py` (a moment ago),
  `positions.py` (`$roam/position/`), `fencing.py`, `anchors.py` (hosts of fences that move)
- Other brokers: `linking.py`, `passing.py` (QoS 0), `announcing.py` (advertisements), `walking.py` and
  `travelling.py` (what clients of the papers do, done for MQTT clients)
- State: `stored.py`, `upgrades.py`, `timers.py`; `observation.py` feeds the journal
"""

"""The broker that MQTT clients use: sessions, local matching, routing and roaming, as one state machine without I/O.

`core.py` holds `Core`. Everything that changes lasting state is an input (`inputs.py`); the server logs inputs
before it performs their effects (`effects.py`), so reading the log again restores a killed broker. docs/PROTOCOL.md
numbers the rules.

- Clients: `admission.py` (connect, take over, expire), `owners.py`, `subscribing.py`, `wishes.py`, `params.py`
- Publishing: `publishing.py`, `events.py`, `content.py` and `payloads.py` (messages as events), `properties.py`
  (filters in user properties), `mqtt_border.py`, `audience.py` (which clients match), `local_delivery.py`,
  `ahead.py`
- Kept messages: `keeping.py`, `retained.py`, `giving.py` (to new subscriptions), `lasting.py`, `groups.py` (shared
  subscriptions)
- Places: `whereabouts.py`, `drift.py`, `earlier.py`, `positions.py`, `fencing.py`, `anchors.py`
- Other brokers: `linking.py`, `passing.py` (QoS 0), `announcing.py`, `walking.py`, `travelling.py` (paper presets)
- State: `stored.py`, `upgrades.py`, `timers.py`; `observation.py` feeds the journal
"""

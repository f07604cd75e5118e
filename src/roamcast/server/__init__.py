"""A live broker: the state machine of `broker/mqtt` with sockets, links, a log and HTTP on one event loop.

- `running.py`: `RunningBroker`, which opens everything in order and closes it; `settings.py`: the TOML file;
  `presets.py`: which protocols MQTT clients can use
- `server.py`: `BrokerServer`, between sockets, log and journal: `connection.py` (one socket), `inbound.py` (packets
  to inputs), `write_ahead.py` (log first), `outbound.py` (effects to sockets), `backpressure.py`
- `access.py`, `security/`: users, rules, limits; `transport/`: TLS and WebSocket
- `links/`, `neighbours.py`: connections to other brokers
- `storage/`: the log in SQLite or PostgreSQL; `snapshot.py`; `tenure.py` (the lease of a broker with a standby)
- `http/`, `web.py`, `api/`, `studio/`: metrics, the HTTP API, the live map; `monitor.py` (log and metrics)
- `tracking.py` (OwnTracks), `tracks.py` (position history), `gauge.py` (measured load), `address.py`
"""

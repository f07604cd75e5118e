"""A gateway between an ad hoc area and brokers (L9): a process that is a node here and a client there.

`roamcast node --gateway` starts one; docs/reference/GATEWAY.md says what crosses and under whose name.

- `crossing.py`: `Crossing`, the state machine that decides which events cross, and lets each cross once
- `parcel.py`: the three forms of a crossing event: `Parcel`, an ad hoc event, an MQTT message
- `running.py`: `Gateway`, which runs both sides on sockets
"""

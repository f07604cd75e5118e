"""A broker that MQTT clients use: sessions, local matching, routing and roaming, as one state machine without I/O.

`core.Core` is the machine. Everything that can change what it must not forget comes to it as an input
(`inputs.py`); a runtime logs inputs before it performs what they bring about (`effects.py`), so that a broker that
was killed is what it was once the log has been read again.
"""

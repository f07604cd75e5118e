"""The HTTP API of a broker (docs/reference/HTTP.md).

`operation.py` turns a function with typed arguments into an endpoint and into its part of the OpenAPI document, and
`api.py` lists them all. What is published and subscribed to goes through `inner.py`, an MQTT client within the
process, so that it meets the same rules, limits and log as what comes over a socket.
"""

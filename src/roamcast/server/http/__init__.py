"""The one HTTP port of a broker: `/metrics`, `/healthz`, the studio and the API (docs/reference/HTTP.md).

`service.py` puts a Starlette application on the broker's event loop, `guard.py` stands before it and keeps the
limits, `users.py` says who asks. Starlette and uvicorn are loaded only where a broker has an HTTP port.
"""

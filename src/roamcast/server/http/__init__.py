"""The one HTTP port of a broker: `/metrics`, `/healthz`, and room for pages and WebSockets."""

from roamcast.server.http.health import health_route
from roamcast.server.http.metrics import LinkState, Metrics, metrics_route
from roamcast.server.http.protocol import HttpLimits, HttpServer
from roamcast.server.http.routes import Handler, HttpRequest, HttpResponse, Routes, Upgrade

__all__ = [
    "Handler",
    "HttpLimits",
    "HttpRequest",
    "HttpResponse",
    "HttpServer",
    "LinkState",
    "Metrics",
    "Routes",
    "Upgrade",
    "health_route",
    "metrics_route",
]

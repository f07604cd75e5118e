"""`/healthz` says whether the broker is well, part by part, and `/metrics` what it counts."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from roamcast.server.http.metrics import Metrics

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def health_route(checks: Mapping[str, Callable[[], str | None]]) -> Endpoint:
    """Each check says None if its part is well, or what is wrong with it. 200 if all are well, else 503."""

    async def answer(_: Request) -> Response:
        findings = {name: outcome(check) for name, check in checks.items()}
        well = all(finding == "ok" for finding in findings.values())
        body = msgspec.json.encode({"status": "ok" if well else "failing", "checks": findings})
        return Response(body + b"\n", 200 if well else 503, media_type="application/json")

    return answer


def outcome(check: Callable[[], str | None]) -> str:
    try:
        return check() or "ok"
    except Exception as problem:
        return f"the check itself failed: {problem!r}"


def metrics_route(metrics: Metrics, measure: Callable[[], None] = lambda: None) -> Endpoint:
    """`measure` is called before each answer, for what is not counted as it happens."""

    async def answer(_: Request) -> Response:
        measure()
        return Response(metrics.render(), headers={"content-type": CONTENT_TYPE_LATEST})

    return answer

"""`/healthz`: whether the broker is well, part by part, for whoever restarts it or sends clients to it."""

from collections.abc import Callable, Mapping

import msgspec

from roamcast.server.http.routes import Handler, HttpRequest, HttpResponse


def health_route(checks: Mapping[str, Callable[[], str | None]]) -> Handler:
    """Each check says None if its part is well, or what is wrong with it. 200 if all are well, else 503."""

    def answer(_: HttpRequest) -> HttpResponse:
        findings = {name: outcome(check) for name, check in checks.items()}
        well = all(finding == "ok" for finding in findings.values())
        body = msgspec.json.encode({"status": "ok" if well else "failing", "checks": findings})
        return HttpResponse(200 if well else 503, body + b"\n", "application/json")

    return answer


def outcome(check: Callable[[], str | None]) -> str:
    try:
        return check() or "ok"
    except Exception as problem:
        return f"the check itself failed: {problem!r}"

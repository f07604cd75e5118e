"""An operation of the API: a function whose arguments say what it takes.

    async def clients(who: Who, query: ClientsQuery) -> ClientList

`who` has been identified; `query` and `body` are structs that are read from the query and from JSON; `request` is the
request itself, where its body is not JSON of ours; any other argument is text in the path. What it returns is sent as
JSON. `openapi.py` reads the same types, so that the document cannot differ from what is understood.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roamcast.server.http.users import Users

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
Work: TypeAlias = Callable[..., Awaitable[Any]]
SPECIAL = ("who", "query", "body", "request", "return")


class Problem(Struct, frozen=True):
    """Every answer that is not 2xx."""

    problem: str


class Operation(Struct, frozen=True):
    method: Method
    path: str
    work: Work
    media: str = "application/json"
    """Of the answer."""
    takes: str = ""
    """The media type of a body that `work` reads from the request itself."""

    @property
    def hints(self) -> dict[str, Any]:
        return get_type_hints(self.work)

    @property
    def summary(self) -> str:
        return (self.work.__doc__ or "").strip()

    @property
    def query(self) -> type[Struct] | None:
        return self.hints.get("query")

    @property
    def body(self) -> type[Struct] | None:
        return self.hints.get("body")

    @property
    def answer(self) -> type[Struct] | None:
        """None if it is not a struct of ours."""
        found = self.hints["return"]
        return None if issubclass(found, Response) else found

    @property
    def in_path(self) -> list[str]:
        return [name for name in self.hints if name not in SPECIAL]


def routes_of(operations: list[Operation], users: Users) -> list[Route]:
    return [Route(each.path, endpoint_of(each, users), methods=[each.method]) for each in operations]


def endpoint_of(operation: Operation, users: Users) -> Callable[[Request], Awaitable[Response]]:
    query, body, hints = operation.query, operation.body, operation.hints

    async def endpoint(request: Request) -> Response:
        given: dict[str, Any] = dict(request.path_params)
        given["who"] = await users.identify(request)
        if query is not None:
            given["query"] = read_query(request, query)
        if body is not None:
            given["body"] = read_body(await request.body(), body)
        if "request" in hints:
            given["request"] = request
        answer = await operation.work(**given)
        if isinstance(answer, Response):
            return answer
        return Response(msgspec.json.encode(answer) + b"\n", media_type=operation.media)

    return endpoint


def read_query(request: Request, kind: type[Struct]) -> Struct:
    """Raises `HTTPException`."""
    given = dict(request.query_params)
    if len(given) != len(request.query_params.multi_items()):
        raise HTTPException(400, "a parameter appears twice")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise HTTPException(400, worded(problem)) from None


def read_body(data: bytes, kind: type[Struct]) -> Struct:
    """Raises `HTTPException`; an empty body is an empty object."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
        raise HTTPException(400, worded(problem)) from None


def worded(problem: Exception) -> str:
    return str(problem).replace(" - at `$.", " - at `")


async def problem_answer(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    body = msgspec.json.encode(Problem(problem.detail)) + b"\n"
    return Response(body, problem.status_code, problem.headers, "application/json")

"""The OpenAPI document of the API, made of the types of its operations."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

import roamcast
from roamcast.server.api.operation import Operation, Problem

SCHEMAS = "#/components/schemas/{name}"
CONVERTER = re.compile(r"\{(\w+):\w+\}")


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    kinds = [each for operation in operations for each in (operation.body, operation.answer) if each is not None]
    queries = [operation.query for operation in operations if operation.query is not None]
    _, components = msgspec.json.schema_components(
        list(dict.fromkeys([*kinds, *queries, Problem])), ref_template=SCHEMAS
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = CONVERTER.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = described(operation, components)
    names = {each.__name__ for each in queries}
    return {
        "openapi": "3.1.0",
        "info": {"title": "roamcast broker", "version": roamcast.__version__},
        "security": [{"basic": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in names},
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def described(operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    summary, _, more = operation.summary.partition("\n")
    found: dict[str, Any] = {"operationId": operation.work.__name__, "summary": summary}
    if more.strip():
        found["description"] = re.sub(r"\s*\n\s*", " ", more.strip())
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in operation.in_path
    ]
    if operation.query is not None:
        schema = components[operation.query.__name__]
        required = schema.get("required", [])
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": each}
            for name, each in schema["properties"].items()
        ]
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        found["requestBody"] = {"content": {"application/json": {"schema": reference(operation.body)}}}
    elif operation.takes:
        found["requestBody"] = {"content": {operation.takes: {"schema": {}}}}
    schema = {} if operation.answer is None else reference(operation.answer)
    problem = {"description": "what is wrong", "content": {"application/json": {"schema": reference(Problem)}}}
    found["responses"] = {
        "200": {"description": "done", "content": {operation.media: {"schema": schema}}},
        "4XX": problem,
        "5XX": problem,
    }
    return found


def reference(kind: type[Struct]) -> dict[str, str]:
    return {"$ref": SCHEMAS.format(name=kind.__name__)}

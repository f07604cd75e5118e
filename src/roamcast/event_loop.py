"""The event loop that brokers, nodes and the demo run on: uvloop where it is installed, else asyncio's own."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)

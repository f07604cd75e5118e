"""Reaching one peer, again and again, as long as there is no link to it."""

import asyncio
import ssl as tls
from collections.abc import Callable, Sequence
from random import Random

from roamcast.server.links.channel import Channel
from roamcast.server.links.settings import LinkSettings


class Dialler:
    """Rests while there is a link, whoever dialled it. A peer may be at any of several addresses: they are tried in
    turn, beginning with the one where it was last. The pause between attempts doubles with each round, up to a bound.
    """

    def __init__(
        self,
        peer: str,
        addresses: Sequence[tuple[str, int]],
        context: tls.SSLContext | None,
        settings: LinkSettings,
        generator: Random,
    ) -> None:
        self.peer = peer
        self.addresses = addresses
        self.context = context
        self.settings = settings
        self.generator = generator
        self.attempting = False
        self._at = 0
        """Which of the addresses is next."""
        self.idle = asyncio.Event()
        """There is no link."""
        self.idle.set()

    async def run(
        self, make: Callable[[], Channel], failed: Callable[[str], None], attempt_over: Callable[[], None]
    ) -> None:
        failures = 0
        pause_s = 0.0
        while True:
            await self.idle.wait()
            await asyncio.sleep(pause_s)
            if not self.idle.is_set():
                failures = 0
            else:
                self.attempting = True
                if await self._attempt(make, failed):
                    failures = 0
                else:
                    failures += 1
                    self._at = (self._at + 1) % len(self.addresses)
                self.attempting = False
                attempt_over()
            pause_s = self._pause_s(failures // len(self.addresses))

    async def _attempt(self, make: Callable[[], Channel], failed: Callable[[str], None]) -> bool:
        loop = asyncio.get_running_loop()
        host, port = self.addresses[self._at]
        hostname, handshake_s = None, None
        if self.context is not None:
            hostname = self.peer if self.context.check_hostname else host
            handshake_s = self.settings.dial_s
        try:
            async with asyncio.timeout(self.settings.dial_s):
                _, channel = await loop.create_connection(
                    make, host, port, ssl=self.context, server_hostname=hostname, ssl_handshake_timeout=handshake_s
                )
        except (OSError, ValueError) as problem:
            # TimeoutError is an OSError; a ValueError comes of a certificate or a host name.
            failed(f"{self.peer} at {host}:{port}: {problem or type(problem).__name__}")
            return False
        return await channel.settled

    def _pause_s(self, failures: int) -> float:
        bound_s = min(self.settings.backoff_max_s, self.settings.backoff_min_s * 2.0 ** min(failures, 16))
        return bound_s * self.generator.uniform(0.5, 1.0)

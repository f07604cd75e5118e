"""All links of one broker: at most one to each peer, whoever dialled it.

Two brokers that dial each other have two connections for a moment. Of the two, the one with the smaller name
decides, so that both ends agree without asking back:

- Nothing is up: the connection that it dialled itself is the link. One that the peer dialled is the link if it is
  not dialling just now, or its own attempt fails, or takes longer than `hold_s`.
- A link is up and the peer comes with another connection: if the same side dialled both, that side has lost the
  first one, and the new one takes its place. If not, the link is pinged; it is replaced if it does not answer.

The other end does what it is told (CHOSEN). A link is up on each side from the moment that it is chosen there, and a
peer's `down` is told before its next `up`, with no frame in between.
"""

import asyncio
import ssl as tls
from collections.abc import Collection, Sequence
from functools import partial
from random import Random
from typing import Protocol

from roamcast.server.links.channel import Channel, Stage
from roamcast.server.links.dialling import Dialler
from roamcast.server.links.frames import PAYLOAD_BYTES_MAX, USER_KIND_MAX, check_name
from roamcast.server.links.settings import LinkSettings

CLOSE_S = 2.0
"""So long has what was sent to leave when links are closed."""


class LinkListener(Protocol):
    """Told on the event loop. `up` and `down` of a peer take turns; frames come in between, in order."""

    def up(self, peer: str) -> None: ...
    def down(self, peer: str) -> None: ...
    def frame(self, peer: str, kind: int, data: bytes) -> None: ...
    def remark(self, what: str, detail: str) -> None: ...


class Links:
    def __init__(
        self,
        name: str,
        listener: LinkListener,
        *,
        generator: Random | None = None,
        settings: LinkSettings | None = None,
        neighbours: Collection[str] | None = None,
    ) -> None:
        """`generator` is where the jitter between attempts to dial comes from; `neighbours` are the names that may
        have a link, beside those that are dialled, and None lets in whoever can prove its name."""
        check_name(name)
        self.name = name
        self.listener = listener
        self.neighbours = None if neighbours is None else frozenset(neighbours)
        self.settings = settings or LinkSettings()
        self._generator = generator or Random(name)
        self._links: dict[str, Channel] = {}
        self._channels: dict[Channel, None] = {}
        """All connections that are not closed."""
        self._going: dict[Channel, None] = {}
        """Those that are closed here, and have a socket still."""
        self._owed_down: dict[str, None] = {}
        self._diallers: dict[str, Dialler] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._closing = False

    # What its user asks.

    async def listen(self, host: str, port: int, ssl: tls.SSLContext | None = None) -> int:
        """Accepts links; answers with the port, which the system chooses for port 0."""
        _check_context(ssl)
        loop = asyncio.get_running_loop()
        handshake_s = None if ssl is None else self.settings.greeting_s
        self._server = await loop.create_server(
            partial(Channel, self), host, port, ssl=ssl, ssl_handshake_timeout=handshake_s
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def dial(
        self,
        peer: str,
        host: str,
        port: int,
        ssl: tls.SSLContext | None = None,
        others: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Has a link to `peer` from now on, as far as it can be reached there, or at one of `others`."""
        check_name(peer)
        _check_context(ssl)
        if peer == self.name or peer in self._diallers:
            raise ValueError(f"'{peer}' is this broker itself, or dialled already")
        dialler = Dialler(peer, [(host, port), *others], ssl, self.settings, self._generator)
        self._diallers[peer] = dialler
        if peer in self._links:
            dialler.idle.clear()
        work = dialler.run(
            partial(Channel, self, peer),
            partial(self.remark, "link_dial_failed"),
            partial(self._attempt_over, peer),
        )
        self._tasks[peer] = asyncio.get_running_loop().create_task(work)

    def send(self, peer: str, kind: int, data: bytes) -> bool:
        """False if it was not sent: there is no link, or the data is too large for one."""
        if not 0 <= kind <= USER_KIND_MAX:
            raise ValueError(f"kind {kind}: 0 to {USER_KIND_MAX} are for users of links")
        link = self._links.get(peer)
        if link is None:
            return False
        if len(data) > PAYLOAD_BYTES_MAX:
            self.remark("link_frame_too_large", f"{peer}: {len(data)} bytes, at most {PAYLOAD_BYTES_MAX}")
            return False
        link.send(kind, data)
        return not link.is_closed

    def cut(self, peer: str) -> None:
        """Ends the link to `peer`; if it is dialled from here, it is dialled again."""
        link = self._links.get(peer)
        if link is not None:
            link.end()

    def wait(self, peer: str, waits: bool) -> None:
        """Nothing is read from the link to `peer` while it waits; a new link does not."""
        link = self._links.get(peer)
        if link is not None:
            link.wait(waits)

    def hang_up(self, peer: str) -> None:
        """Ends the link to `peer`, and dials it no more."""
        task = self._tasks.pop(peer, None)
        if task is not None:
            task.cancel()
            del self._diallers[peer]
        self.cut(peer)

    def is_up(self, peer: str) -> bool:
        return peer in self._links

    def dials(self, peer: str) -> bool:
        return peer in self._diallers

    async def close(self) -> None:
        """Sends what was given to `send`, as far as peers take it within two seconds."""
        self._closing = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for channel in list(self._channels):
            channel.end_gently()
        if self._going:
            await asyncio.wait([channel.lost for channel in self._going], timeout=CLOSE_S)
        for channel in list(self._going):
            channel.abort()
        if self._going:
            await asyncio.wait([channel.lost for channel in self._going], timeout=CLOSE_S)
        self._pay()

    def abort(self) -> None:
        """Closes every connection at once; what was to be sent is not."""
        self._closing = True
        for task in self._tasks.values():
            task.cancel()
        if self._server is not None:
            self._server.close()
        for channel in list(self._channels):
            channel.end()

    # What connections tell.

    def opened(self, channel: Channel) -> bool:
        self._channels[channel] = None
        if self._closing or (channel.dialled and channel.peer in self._links):
            return False
        strangers = sum(not each.dialled and each.stage in (Stage.OPEN, Stage.NAMED) for each in self._channels)
        if not channel.dialled and strangers > self.settings.strangers_max:
            self.remark("link_strangers", f"{channel.address}: more than {self.settings.strangers_max} at a time")
            return False
        return True

    def knows(self, name: str) -> bool:
        return self.neighbours is None or name in self.neighbours or name in self._diallers

    def greeted(self, channel: Channel) -> None:
        if channel.peer < self.name:
            return
        link = self._links.get(channel.peer)
        dialler = self._diallers.get(channel.peer)
        if link is not None and link.dialled != channel.dialled:
            link.ping()
            channel.loop.call_later(self.settings.probe_s, self._judge, link, link.heard, channel)
        elif link is None and not channel.dialled and dialler is not None and dialler.attempting:
            channel.loop.call_later(self.settings.hold_s, self._held_long_enough, channel)
        else:
            self._raise(channel)

    def chosen(self, channel: Channel) -> None:
        self._raise(channel)

    def took(self, channel: Channel, kind: int, data: bytes) -> None:
        self.listener.frame(channel.peer, kind, data)

    def closed(self, channel: Channel) -> None:
        self._channels.pop(channel, None)
        self._going[channel] = None
        peer = channel.peer
        if self._links.get(peer) is not channel:
            return
        del self._links[peer]
        # Told on the next tick: whoever has just cut a link is not to be called from within that.
        self._owed_down[peer] = None
        channel.loop.call_soon(self._pay)
        if peer in self._diallers:
            self._diallers[peer].idle.set()

    def gone(self, channel: Channel) -> None:
        self._going.pop(channel, None)

    def remark(self, what: str, detail: str) -> None:
        self.listener.remark(what, detail)

    # Which connection is the link.

    def _raise(self, channel: Channel) -> None:
        peer = channel.peer
        link = self._links.get(peer)
        if link is not None:
            self.remark("link_replaced", peer)
            link.end()
        self._pay()
        if channel.is_closed:
            return
        self._links[peer] = channel
        channel.raise_up(tell=self.name < peer)
        if peer in self._diallers:
            self._diallers[peer].idle.clear()
        for other in [each for each in self._channels if each.peer == peer and each is not channel]:
            other.end()
        self.listener.up(peer)

    def _judge(self, link: Channel, heard: int, channel: Channel) -> None:
        if channel.stage is not Stage.GREETED:
            return
        if self._links.get(channel.peer) is link and link.heard > heard:
            channel.refuse(f"{self.name} has a link to {channel.peer} already")
        elif self._links.get(channel.peer) in (None, link):
            self._raise(channel)
        else:
            channel.end()

    def _held_long_enough(self, channel: Channel) -> None:
        if channel.stage is Stage.GREETED and channel.peer not in self._links:
            self._raise(channel)

    def _attempt_over(self, peer: str) -> None:
        # The newest first: a peer that dialled twice has lost the one before.
        for channel in reversed(list(self._channels)):
            if channel.peer == peer and channel.stage is Stage.GREETED and self.name < peer:
                self._held_long_enough(channel)

    def _pay(self) -> None:
        """Tells what is down, if that is not told yet."""
        owed, self._owed_down = self._owed_down, {}
        for peer in owed:
            self.listener.down(peer)


def _check_context(context: tls.SSLContext | None) -> None:
    if context is not None and context.verify_mode is not tls.CERT_REQUIRED:
        raise ValueError("links with TLS check certificates on both sides: verify_mode must be CERT_REQUIRED")

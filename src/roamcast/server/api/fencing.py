"""Fences over HTTP: retained messages with GeoJSON on `$roam/fences/<name>` (docs/PROTOCOL.md, section 18)."""

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from roamcast.broker.mqtt.fencing import DEFINITIONS
from roamcast.mqtt.packets import Publish
from roamcast.mqtt.reasons import BadPacket
from roamcast.mqtt.topics import check_topic_name
from roamcast.server.api.looking import GEOJSON
from roamcast.server.api.publishing import Speaking
from roamcast.server.api.shown import Done, FenceList, FenceShown
from roamcast.server.http.users import Who
from roamcast.server.server import BrokerServer


class Fencing:
    def __init__(self, server: BrokerServer, speaking: Speaking) -> None:
        self._server = server
        self._speaking = speaking

    async def fences(self, who: Who) -> FenceList:
        """The fences of all brokers, as they were defined, for who may subscribe to them."""
        retained = self._server.core.border.retained
        found = [
            FenceShown(topic.removeprefix(DEFINITIONS), msgspec.Raw(retained.payload_of(topic)))
            for topic in sorted(topic for topic in retained.of if topic.startswith(DEFINITIONS))
            if who.hears(topic)
        ]
        return FenceList(found)

    async def fence(self, who: Who, name: str) -> Response:
        """One fence, as GeoJSON."""
        return Response(self._defined(who, name), media_type=GEOJSON)

    async def put_fence(self, who: Who, name: str, request: Request) -> Done:
        """Define a fence at all brokers by GeoJSON, or a collection of them."""
        body = await request.body()
        if not body:
            raise HTTPException(400, "give the fence as GeoJSON; DELETE deletes one")
        await self._speaking.say(who, Publish(self._topic(name), body, 1, retain=True))
        return Done(f"{name} is defined")

    async def delete_fence(self, who: Who, name: str) -> Done:
        """Delete what a definition has defined."""
        self._defined(who, name)
        await self._speaking.say(who, Publish(self._topic(name), b"", 1, retain=True))
        return Done(f"{name} is deleted")

    def _defined(self, who: Who, name: str) -> bytes:
        topic = self._topic(name)
        payload = self._server.core.border.retained.payload_of(topic)
        if not payload or not who.hears(topic):
            raise HTTPException(404, f"no fence '{name[:200]}' is defined, or it is not shown to you")
        return payload

    def _topic(self, name: str) -> str:
        try:
            check_topic_name(name)
        except BadPacket as problem:
            raise HTTPException(400, problem.detail) from None
        return DEFINITIONS + name

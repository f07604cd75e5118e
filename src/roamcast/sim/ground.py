"""The `Ground` of an application's port in a simulated world."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from roamcast.model.context import Context
from roamcast.model.space import Plane, Space
from roamcast.model.values import Value
from roamcast.node.boundary import Input, Moved
from roamcast.sim.applications import watched
from roamcast.sim.hosts import Body

if TYPE_CHECKING:
    from roamcast.sim.world import World


class SimulatedGround:
    """As long as its host lives, and no longer."""

    def __init__(self, world: "World", body: Body) -> None:
        self.world = world
        self.body = body
        self.host = body.host
        self.space: Space = Plane()

    def now_us(self) -> int:
        return self.world.kernel.now_us + self.host.clock_offset_us

    def context(self) -> Context:
        return self.world.context(self.body)

    def give(self, given: Input) -> None:
        if self.body.lives_as(self.host):
            self.world.give(self.host.id, given)

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        self.world.kernel.at(self.world.kernel.now_us + delay_us, self._act, action)

    def _act(self, action: Callable[[], None]) -> None:
        # A crash or an absence in between ended this application; another one may have started since.
        if self.body.lives_as(self.host):
            self.body.act(watched, self.host.id, self.world.kernel.now_us, action)

    def say(self, text: str) -> None:
        if self.world.say is not None:
            self.world.say(self.world.kernel.now_us, self.host.id, text)

    def set_attributes(self, attributes: dict[str, Value]) -> None:
        if self.body.lives_as(self.host):
            self.body.attributes = attributes
            self.world.give(self.host.id, Moved(self.world.context(self.body)))

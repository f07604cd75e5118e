"""L2: what a client says in one piece is heard to its end, in its order."""

from roamcast.mqtt.packets import V311, Disconnect, PubAck, Publish
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient


def test_l2_more_than_may_wait_at_once_is_read_on_when_the_first_are_answered() -> None:
    """A client of 3.1.1 knows no receive maximum; it has nothing more to say that would have the broker look."""
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), SimClient(scene.stage, "old", 0, V311)
    writer.connect("a", clean=True)
    scene.subscribe(reader, "t", 0)
    many = [b"%d" % number for number in range(2_500)]
    writer._say(*(Publish("t", each, 1, packet_id=number) for number, each in enumerate(many, start=1)))
    scene.rest(2.0)
    assert len([each for each in writer.heard if isinstance(each, PubAck)]) == len(many)
    assert reader.taken == many


def test_l2_what_a_client_says_before_it_leaves_is_heard() -> None:
    """What has properties goes the long way, which waits for the end of the tick."""
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer", expiry_s=0)
    scene.subscribe(reader, "t", 0)
    pairs = (("a", "b"),)
    writer._say(Publish("t", b"1"), Publish("t", b"2", user_properties=pairs), Publish("t", b"3"), Disconnect())
    scene.rest()
    assert reader.taken == [b"1", b"2", b"3"]

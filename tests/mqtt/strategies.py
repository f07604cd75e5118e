"""Any packet that the standard allows."""

from hypothesis import strategies as st

from roamcast.mqtt.packets import (
    NEVER_S,
    V5,
    V311,
    AnyPacket,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Will,
    Wish,
)
from roamcast.mqtt.reasons import (
    AUTH_REASONS,
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    PUBACK_REASONS,
    PUBREL_REASONS,
    REASON_OF_311,
    SUBACK_REASONS,
    UNSUBACK_REASONS,
    Reason,
)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
topics = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#"), min_size=1, max_size=12)
levels = st.one_of(st.just("+"), st.text(st.sampled_from("ab$é"), max_size=3))
filters = st.builds(
    lambda front, rest: "/".join([*front, *rest]),
    st.lists(levels, min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
).filter(bool)
plain_filters = filters.filter(lambda text: not text.startswith("$share/"))
binaries = st.binary(max_size=12)
payloads = st.one_of(st.binary(max_size=40), st.binary(min_size=120, max_size=400))
bits16 = st.integers(0, 0xFFFF)
ids = st.integers(1, 0xFFFF)
bits32 = st.integers(0, 0xFFFF_FFFF)
pairs = st.lists(st.tuples(texts, texts), max_size=4).map(tuple)
nothing = st.none()
qualities = st.integers(0, 2)


def of(codes: dict[int, Reason]) -> st.SearchStrategy[Reason]:
    return st.sampled_from(list(codes.values()))


wills_311 = st.builds(Will, topics, binaries, qualities, st.booleans())
wills = st.builds(
    Will,
    topics,
    binaries,
    qualities,
    st.booleans(),
    delay_s=bits32,
    payload_format=nothing | st.integers(0, 1),
    message_expiry_s=nothing | bits32,
    content_type=nothing | texts,
    response_topic=nothing | topics,
    correlation_data=nothing | binaries,
    user_properties=pairs,
)


@st.composite
def connects(draw: st.DrawFn) -> Connect:
    method = draw(nothing | texts)
    return Connect(
        draw(texts),
        V5,
        draw(st.booleans()),
        draw(bits16),
        draw(nothing | texts),
        draw(nothing | binaries),
        draw(nothing | wills),
        draw(bits32),
        draw(ids),
        draw(nothing | st.integers(1, 0xFFFF_FFFF)),
        draw(bits16),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(pairs),
        method,
        None if method is None else draw(nothing | binaries),
    )


@st.composite
def connects_311(draw: st.DrawFn) -> Connect:
    clean = draw(st.booleans())
    user = draw(nothing | texts)
    return Connect(
        draw(texts),
        V311,
        clean,
        draw(bits16),
        user,
        None if user is None else draw(nothing | binaries),
        draw(nothing | wills_311),
        0 if clean else NEVER_S,
    )


@st.composite
def connacks(draw: st.DrawFn) -> ConnAck:
    reason = draw(of(CONNACK_REASONS))
    return ConnAck(
        reason,
        reason is Reason.SUCCESS and draw(st.booleans()),
        draw(nothing | bits32),
        draw(ids),
        draw(qualities),
        draw(st.booleans()),
        draw(nothing | st.integers(1, 0xFFFF_FFFF)),
        draw(nothing | texts),
        draw(bits16),
        draw(nothing | texts),
        draw(pairs),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(nothing | bits16),
        draw(nothing | texts),
        draw(nothing | texts),
        draw(nothing | texts),
        draw(nothing | binaries),
    )


@st.composite
def publishes(draw: st.DrawFn, version: int = V5) -> Publish:
    qos = draw(qualities)
    head = (qos, draw(st.booleans()), qos > 0 and draw(st.booleans()), draw(ids) if qos else 0)
    if version != V5:
        return Publish(draw(topics), draw(payloads), *head)
    alias = draw(nothing | ids)
    topic = draw(topics) if alias is None else draw(topics | st.just(""))
    return Publish(
        topic,
        draw(payloads),
        *head,
        draw(nothing | st.integers(0, 1)),
        draw(nothing | bits32),
        alias,
        draw(nothing | topics),
        draw(nothing | binaries),
        draw(pairs),
        draw(st.lists(st.integers(1, 268_435_455), max_size=3).map(tuple)),
        draw(nothing | texts),
    )


plain_publishes = st.builds(lambda packet: Publish(packet.topic or "t", packet.payload), publishes())


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    text = draw(filters | plain_filters.map(lambda inner: "$share/group/" + inner))
    no_local = draw(st.booleans()) and not text.startswith("$share/")
    return Wish(text, draw(qualities), no_local, draw(st.booleans()), draw(st.integers(0, 2)))


answers = (nothing | texts, pairs)
packets_5: st.SearchStrategy[AnyPacket] = st.one_of(
    connects(),
    connacks(),
    publishes(),
    st.builds(PubAck, ids, of(PUBACK_REASONS), *answers),
    st.builds(PubRec, ids, of(PUBACK_REASONS), *answers),
    st.builds(PubRel, ids, of(PUBREL_REASONS), *answers),
    st.builds(PubComp, ids, of(PUBREL_REASONS), *answers),
    st.builds(
        Subscribe,
        ids,
        st.lists(wishes(), min_size=1, max_size=4).map(tuple),
        nothing | st.integers(1, 268_435_455),
        pairs,
    ),
    st.builds(SubAck, ids, st.lists(of(SUBACK_REASONS), min_size=1, max_size=4).map(tuple), *answers),
    st.builds(Unsubscribe, ids, st.lists(filters, min_size=1, max_size=4).map(tuple), pairs),
    st.builds(UnsubAck, ids, st.lists(of(UNSUBACK_REASONS), min_size=1, max_size=4).map(tuple), *answers),
    st.just(PingReq()),
    st.just(PingResp()),
    st.builds(Disconnect, of(DISCONNECT_REASONS), nothing | bits32, *answers, nothing | texts),
    st.builds(Auth, of(AUTH_REASONS), texts, nothing | binaries, *answers),
    st.just(Auth()),
)
packets_311: st.SearchStrategy[AnyPacket] = st.one_of(
    connects_311(),
    st.builds(ConnAck, of(REASON_OF_311)),
    st.just(ConnAck(session_present=True)),
    publishes(V311),
    st.builds(PubAck, ids),
    st.builds(PubRec, ids),
    st.builds(PubRel, ids),
    st.builds(PubComp, ids),
    st.builds(Subscribe, ids, st.lists(st.builds(Wish, plain_filters, qualities), min_size=1, max_size=4).map(tuple)),
    st.builds(SubAck, ids, st.lists(of({0: Reason.SUCCESS, 128: Reason.UNSPECIFIED_ERROR}), min_size=1).map(tuple)),
    st.builds(Unsubscribe, ids, st.lists(filters, min_size=1, max_size=4).map(tuple)),
    st.builds(UnsubAck, ids),
    st.just(PingReq()),
    st.just(PingResp()),
    st.just(Disconnect()),
)
versioned = st.one_of(st.tuples(st.just(V5), packets_5), st.tuples(st.just(V311), packets_311))

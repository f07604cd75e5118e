"""What the user of a node can do about what it drops, in one line for each reason that is worth one.

Whoever can reach the network can make a node drop things. What only noise or an attacker makes is counted and no
more; what comes of nodes that were not started alike is said, once.
"""

from roamcast.model.space import Earth
from roamcast.multicast.drops import Reason
from roamcast.multicast.keys import OPEN_GROUP_KEY
from roamcast.multicast.running import NodeSettings


def advice_on(reason: Reason, detail: str, settings: NodeSettings) -> str | None:
    """`detail` is what was wrong with the first; None for a reason that asks for nothing."""
    match reason:
        case "wrong_key":
            return on_wrong_key(settings)
        case "other_space":
            return on_other_space(settings)
        case "forged":
            return on_forged(detail, settings)
        case "stranger":
            return f"not heard: {detail}; see --known-keys and --trust-gateway"
        case "out_of_range":
            return f"not heard: {detail}; --emulate-range asks for that"
        case "version":
            return f"not heard: nodes with {detail}; install the same roamcast everywhere"
        case "malformed":
            return "not heard: messages that this node's protocol does not have; give all nodes the same --protocol"
        case "too_long":
            return f"too long for a datagram: {detail}; what is raised must be shorter"
        case "unsendable":
            why = f" ({detail})" if detail else ""
            return f"no interface takes what this node sends{why}; is there a network, or another --interface?"
        case _:
            return None


def on_wrong_key(settings: NodeSettings) -> str:
    if settings.group_key == OPEN_GROUP_KEY:
        return (
            "not heard: nodes of a group with a key, while this one is in the open group; "
            "give it the --key-file of the others, or its own --port if they are not to meet"
        )
    return (
        "not heard: nodes of a group with another key; "
        "give all of them the same --key-file, or each group its own --port if they are not to meet"
    )


def on_other_space(settings: NodeSettings) -> str:
    theirs, own = ("on a plane", "on Earth") if isinstance(settings.space, Earth) else ("on Earth", "on a plane")
    return f"not heard: nodes {theirs}, while this one is {own}; give all of them --at, or all of them --position"


def on_forged(detail: str, settings: NodeSettings) -> str:
    listed = "" if settings.known is None else ", or its new key in --known-keys"
    return (
        f"not believed: {detail}; if two nodes have one name, give one of them another; "
        f"a node that lost its own key needs that --identity again, or a new name{listed}"
    )

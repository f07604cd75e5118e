"""What a policy says."""

from typing import TypeAlias

from msgspec import Struct

from roamcast.mqtt.reasons import FAILURE_FROM, Reason


class Identity(Struct, frozen=True):
    """`user` is None for whoever did not say who they are, and was let in all the same."""

    client_id: str
    user: str | None = None


class Verdict(Struct, frozen=True):
    """`reason` is for the client, `detail` for whoever reads the log."""

    reason: Reason = Reason.SUCCESS
    detail: str = ""

    @property
    def allowed(self) -> bool:
        return self.reason < FAILURE_FROM


ALLOWED = Verdict()


class Admitted(Struct, frozen=True):
    identity: Identity


class Refused(Struct, frozen=True):
    verdict: Verdict


class ToVerify(Struct, frozen=True):
    """Admitted as `identity` if the password has this hash, which takes too long to find out on the loop."""

    identity: Identity
    hash: str
    password: bytes


Admission: TypeAlias = Admitted | Refused | ToVerify

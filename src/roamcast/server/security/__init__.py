"""Who may come in, what they may publish and subscribe to and where, and how much of it.

`Policy` and the limits decide without I/O; `Passwords` and `PasswordChecker` have the file and the slow hash.
"""

from roamcast.server.security.areas import lies_within
from roamcast.server.security.certificates import common_name
from roamcast.server.security.limits import Bucket, ClientBuckets, Doors, RateLimits
from roamcast.server.security.passwords import BadPasswords, PasswordChecker, Passwords, load_passwords, set_password
from roamcast.server.security.policy import Policy
from roamcast.server.security.rules import BadRules, BoxArea, CircleArea, PolygonArea, Rule, load_rules
from roamcast.server.security.verdicts import ALLOWED, Admission, Admitted, Identity, Refused, ToVerify, Verdict

__all__ = [
    "ALLOWED",
    "Admission",
    "Admitted",
    "BadPasswords",
    "BadRules",
    "BoxArea",
    "Bucket",
    "CircleArea",
    "ClientBuckets",
    "Doors",
    "Identity",
    "PasswordChecker",
    "Passwords",
    "Policy",
    "PolygonArea",
    "RateLimits",
    "Refused",
    "Rule",
    "ToVerify",
    "Verdict",
    "common_name",
    "lies_within",
    "load_passwords",
    "load_rules",
    "set_password",
]

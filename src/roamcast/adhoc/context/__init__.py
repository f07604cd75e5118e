"""Context-aware publish/subscribe in ad hoc networks (C): matching by context without infrastructure.

`node.py` holds `ContextNode`; `params.py` its settings and presets, `messages.py` what hosts send to each other.

- Own items: `telling.py` publishes, subscribes and withdraws, `issued.py` stores them, `reachability.py` computes
  the region in which a moving issuer stays reachable, `renewals.py` refreshes items without resending their
  content.
- Items of others: `keeping.py` accepts or refuses them, `held.py` stores them, `digests.py` tells newcomers what is
  held, `checks.py` refuses frames with impossible values.
- Matching: `meetings.py` checks conditions (i) to (iii) where event and subscription meet, `domains.py` checks (iv)
  and (v) at publisher and subscriber, `matching.py` has the conditions, `query.py` asks for attributes beyond one
  hop, and `surroundings.py` says what the host knows of itself and its neighbours.
"""

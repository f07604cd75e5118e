"""Logical mobility (R4, R5, R7): filters that depend on where a client is, applied by brokers on the path to it.

A subscription with `myloc` or `me.*` travels as a template. Each broker widens it to what the client may accept
soon.

- `template.py`: `Template`, the travelling subscription, and the rule for how many steps a broker looks ahead
- `reach.py`: widens a filter over the client's own state
- `following.py`: holds templates and passes them on; `logical.py` joins it to a broker
- `ahead.py`: subscribes in advance at the brokers that a client may visit next
- `delays.py`, `traveller.py`: link delays, and the client's reports of place and state
- `params.py`: all settings
"""

"""The boundary between protocols and whatever runs them: `handle(now_us, given) -> effects`.

A protocol is a node: it gets inputs with the time, and answers with effects. It has no clock and does no I/O. A
`Host` runs one node in some `Runtime`: the simulator, a server, or a node on multicast.

- `boundary.py`: all inputs and effects; `kit.py`: `ProtocolKit`, what a runtime needs to make nodes
- `host.py`: `Host`, the only caller of `handle`; `observer.py`: `Observer`, told of everything that happens
- `port.py`: `Port` and `Application`, the side of an application
- `local_match.py`: the conditions of C6 that one host can judge alone; `recent.py`: a bounded memory of ids
- `codec.py`: messages as MessagePack; `compact.py`, `compact_format.py`, `compact_reading.py`,
  `compact_writing.py`: shorter ones for radio
"""

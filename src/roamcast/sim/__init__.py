"""A discrete-event simulator: hosts that move, radios, links and faults in virtual time, all from one seed.

- `scenario.py`: `load_scenario`, from TOML (docs/reference/SCENARIOS.md); `warnings.py`, `amounts.py`, `brokers.py`:
  checks and warnings
- `run.py`: `Run` and `run_scenario`; `world.py`: `World`, the runtime of all nodes; `kernel.py`: the event heap
- What moves messages: `transport.py`, over `radio.py`, `links.py` (given one by one, by `wiring.py`, or by
  `access.py` as hosts move) or `underlay.py` (hops of radio); `faults.py` loses, cuts and crashes
- Hosts: `hosts.py`, `whereabouts.py` (positions, who is in range), `instant.py` (all contexts at one time)
- What they do: `traffic.py` (publish and subscribe rules), `draws.py`, `applications.py` and `ground.py` (Python
  applications), `fences.py`
- What is measured: `observers.py` (`Tally`), `ideal.py` (what an ideal system delivers), `checkers.py` (fail a run)
"""

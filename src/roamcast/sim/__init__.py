"""A discrete-event simulator: hosts that move, radios, links and faults in virtual time, all from one seed.

- `scenario.py`: `load_scenario`, from TOML (docs/reference/SCENARIOS.md); `warnings.py`, `amounts.py`, `brokers.py`:
  checks and warnings
- `run.py`: `Run` and `run_scenario`; `world.py`: `World`, the runtime of all nodes; `kernel.py`: the event heap
- What moves messages: `radio.py`, `links.py`, `wiring.py`, `access.py`, `underlay.py`, `transport.py`; `faults.py`
  breaks them
- Hosts: `hosts.py`, `whereabouts.py` (positions, who is in range), `instant.py` (all contexts at one time)
- What they do: `traffic.py` (publish and subscribe rules), `draws.py`, `applications.py` and `ground.py` (Python
  applications), `fences.py`
- What is measured: `observers.py` (`Tally`), `ideal.py` (what an ideal system delivers), `checkers.py` (fail a run)
"""

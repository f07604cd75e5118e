"""Modulators (O1, O9): functions of a consumer that a broker applies to events before delivering them.

docs/reference/MODULATORS.md describes them for users.

- `spec.py`: what a modulator is made from, as text in a subscription; `make.py` makes it
- Three kinds behind `interface.py`: `declarative.py` (filter, project, sample, aggregate), `registry.py` (Python
  that the operator trusts), `wasm.py` in `sandbox.py` (a consumer's WebAssembly)
- `guarded.py`, `limits.py`, `budget.py`: limits on each modulator, and CPU time for all of them
- `running.py`: runs them at the border of a broker; `placement.py`, `traffic.py`: where one should run, by measured
  traffic
"""

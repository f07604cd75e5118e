"""The five papers' experiments, measured again, and random trials of every protocol.

- `experiment.py`: `Experiment`, `Claim` and `Verdict`; `catalogue.py` lists all experiments
- One file for each group of figures: `steam.py`, `steam_speed.py`, `steam_intersection.py`, `steam_queues.py`,
  `steam_latency.py`; `context.py`; `rebeca.py`, `rebeca_locality.py`, `rebeca_mobility.py` (with `example.py`);
  `mesh.py`, `mesh_figures.py`, `mesh_predictions.py`, `mesh_learned.py`; `overlay.py`, `overlay_figures.py`,
  `overlay_hosts.py`
- Running and reporting: `sweep.py` (on Spark), `varied.py` (changed scenarios), `rows.py`, `report.py`,
  `report_plots.py`, `claims_pages.py`
- Random trials for `roamcast chaos`: `trials.py` lists them; `chaos.py` (roaming), `chaos_announcing.py`,
  `chaos_logical.py`, `chaos_mesh.py`, `chaos_overlay.py`, `chaos_counting.py`, `chaos_record.py`
- `assemble.py`: from the `kind` of a scenario's protocol to nodes that run
"""

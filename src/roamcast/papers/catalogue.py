"""The one list of experiments: every published figure and table, by name (P4)."""

from roamcast.papers import (
    context,
    mesh_figures,
    mesh_learned,
    mesh_predictions,
    overlay_figures,
    overlay_hosts,
    rebeca,
    rebeca_locality,
    rebeca_mobility,
    steam,
    steam_intersection,
    steam_latency,
    steam_queues,
    steam_speed,
)
from roamcast.papers.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *steam.EXPERIMENTS,
        *steam_speed.EXPERIMENTS,
        *steam_intersection.EXPERIMENTS,
        *steam_queues.EXPERIMENTS,
        *steam_latency.EXPERIMENTS,
        *context.EXPERIMENTS,
        *mesh_figures.EXPERIMENTS,
        *mesh_predictions.EXPERIMENTS,
        *mesh_learned.EXPERIMENTS,
        *rebeca_mobility.EXPERIMENTS,
        *rebeca_locality.EXPERIMENTS,
        *rebeca.EXPERIMENTS,
        *overlay_figures.EXPERIMENTS,
        *overlay_hosts.EXPERIMENTS,
    )
}

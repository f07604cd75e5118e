"""The one list of experiments: every published figure and table, by name (P4)."""

from roamcast.experiments import context, mesh_figures, overlay_figures, rebeca, steam
from roamcast.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *steam.EXPERIMENTS,
        *context.EXPERIMENTS,
        *mesh_figures.EXPERIMENTS,
        *rebeca.EXPERIMENTS,
        *overlay_figures.EXPERIMENTS,
    )
}

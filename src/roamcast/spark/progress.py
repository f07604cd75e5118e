"""How far Spark is, on a terminal: a thread asks its status tracker how many tasks of a step are done.

Through Spark Connect there is no tracker; the server itself tells how far it is.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from roamcast.spark.session import is_remote

POLL_S = 0.2


class Watcher(Protocol):
    def watching(self, name: str, step: int, steps: int) -> Any:
        """A context in which the job of this name runs."""
        ...


class Quiet:
    """Watches nothing."""

    @contextmanager
    def watching(self, name: str, step: int, steps: int) -> Iterator[None]:
        yield


class Bar:
    """A progress bar on a terminal; in a file, a line for each step."""

    def __init__(self, spark: Any, console: Console) -> None:
        self.spark = spark
        self.console = console

    @contextmanager
    def watching(self, name: str, step: int, steps: int) -> Iterator[None]:
        if not self.console.is_terminal:
            self.console.print(f"{step} of {steps}: {name}", markup=False, highlight=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal
        ) as progress:
            task = progress.add_task(f"{step} of {steps}: {name}", total=None)
            follow = self._told if is_remote(self.spark) else self._asking
            with follow(name, progress, task):
                yield

    @contextmanager
    def _asking(self, name: str, progress: Progress, task: TaskID) -> Iterator[None]:
        context = self.spark.sparkContext
        done = threading.Event()

        def ask() -> None:
            tracker = context.statusTracker()
            while not done.wait(POLL_S):
                show(progress, task, *counted(tracker, group_of(name)))

        watch = threading.Thread(target=ask, daemon=True)
        context.setJobGroup(group_of(name), name)
        watch.start()
        try:
            yield
        finally:
            done.set()
            watch.join()
            context.setLocalProperty("spark.jobGroup.id", None)

    @contextmanager
    def _told(self, _name: str, progress: Progress, task: TaskID) -> Iterator[None]:
        def tell(stages: Any, *_: Any, **__: Any) -> None:
            known = list(stages or ())
            tasks = sum(stage.num_tasks for stage in known)
            show(progress, task, tasks, sum(stage.num_completed_tasks for stage in known))

        self.spark.registerProgressHandler(tell)
        try:
            yield
        finally:
            self.spark.removeProgressHandler(tell)


def show(progress: Progress, task: TaskID, tasks: int, finished: int) -> None:
    if tasks:
        progress.update(task, total=tasks, completed=finished)


def group_of(name: str) -> str:
    return f"roamcast {name}"


def counted(tracker: Any, group: str) -> tuple[int, int]:
    """All tasks of a job group, or of what is running if it has none, and those that are done."""
    numbers = tracker.getJobIdsForGroup(group) or tracker.getActiveJobsIds()
    jobs = [tracker.getJobInfo(number) for number in numbers]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numTasks for stage in known), sum(stage.numCompletedTasks for stage in known)

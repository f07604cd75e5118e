"""How pieces of work are dealt out to Spark tasks.

A task costs about 0.1 s of CPU whatever it does, so beyond as many as keep cores evenly busy one takes several
pieces. It takes them from all over the list: long ones, which are often next to each other, fall to different tasks.
"""

import gc
from functools import cache

TASKS_EVEN = 24
"""So many keep cores evenly busy, whatever the pieces are."""
TASKS_MAX = 400


def tasks_for(pieces: int, pieces_a_task: int, even: int = TASKS_EVEN) -> int:
    """Of very many pieces a task has `pieces_a_task`; then there are more tasks, for clusters that can use them."""
    return max(1, min(pieces, max(even, pieces // pieces_a_task), TASKS_MAX))


@cache
def settle() -> None:
    """For a worker that has done its first task, once. Spark has the garbage collector look at everything after each
    task, and nearly all of that are modules, which stay: it took a fifth of a worker's time."""
    gc.collect()
    gc.freeze()


def dealt_to(task: int, tasks: int, pieces: int) -> range:
    """The numbers of the pieces of one task."""
    return range(task, pieces, tasks)

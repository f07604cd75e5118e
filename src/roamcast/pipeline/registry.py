"""All jobs of the pipeline, by name. A new job is added to its module's `JOBS`, and the module here."""

from roamcast.pipeline import audit, movement, prepare
from roamcast.pipeline.job import BadPipeline, Job
from roamcast.pipeline.oracle import merge, task

ORACLES = {"index": task.JOBS, "merge": merge.JOBS}
"""Two ways to the same table `expected`."""
OTHERS: tuple[Job, ...] = (*prepare.JOBS, *audit.JOBS, *movement.JOBS)
JOBS: tuple[Job, ...] = (*prepare.JOBS, *task.JOBS, *merge.JOBS, *audit.JOBS, *movement.JOBS)


def job_named(name: str, join: str = "index") -> Job:
    by_name = {job.name: job for job in (*ORACLES[join], *OTHERS)}
    if name not in by_name:
        raise BadPipeline(f"no job is called '{name}'; there are {', '.join(by_name)}")
    return by_name[name]


def chain(*wanted: Job, join: str = "index") -> list[Job]:
    """The jobs and all that their inputs need, each after what it reads; other tables come from ingest."""
    ordered: dict[str, Job] = {}
    writers = {job.writes.name: job for job in (*ORACLES[join], *OTHERS)}

    def add(job: Job) -> None:
        if job.name in ordered:
            return
        for table in job.reads:
            if table.name in writers:
                add(writers[table.name])
        ordered[job.name] = job

    for job in wanted:
        add(job)
    return list(ordered.values())

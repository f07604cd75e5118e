"""All jobs of the pipeline, by name. A new job is added to its module's `JOBS`, and the module here."""

from roamcast.pipeline import audit, movement, prepare
from roamcast.pipeline.job import BadPipeline, Job, Table
from roamcast.pipeline.oracle import task

JOBS: tuple[Job, ...] = (*prepare.JOBS, *task.JOBS, *audit.JOBS, *movement.JOBS)
WRITERS = {job.writes.name: job for job in JOBS}
BY_NAME = {job.name: job for job in JOBS}


def job_named(name: str) -> Job:
    if name not in BY_NAME:
        raise BadPipeline(f"no job is called '{name}'; there are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def chain(*wanted: Job) -> list[Job]:
    """The jobs and all that their inputs need, each after what it reads; other tables come from ingest."""
    ordered: dict[str, Job] = {}

    def add(job: Job) -> None:
        if job.name in ordered:
            return
        for table in job.reads:
            if writes(table) is not None:
                add(WRITERS[table.name])
        ordered[job.name] = job

    for job in wanted:
        add(job)
    return list(ordered.values())


def writes(table: Table) -> Job | None:
    return WRITERS.get(table.name)

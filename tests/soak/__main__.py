"""`make soak`: rounds of trouble for an hour, or as many as ROUNDS says. The first broken promise ends it."""

import asyncio
import os
import secrets
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.networks.lan import Lan
from tests.networks.namespaces import why_not as why_no_namespaces
from tests.processes.publisher import PahoPublisher
from tests.server.storage.clusters import folder_of_clusters
from tests.server.storage.clusters import why_not as why_no_postgres
from tests.soak.failover import MACHINES, Failed, Soak

HOUR_S = 3_600.0


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


async def rounds(soak: Soak, generator: Random, count: int) -> int:
    """How many were held; raises `Failed`."""
    names, done = list(soak.troubles()), 0
    order: list[str] = []
    until_s = time.monotonic() + HOUR_S
    await soak.begin()
    while done < count if count else time.monotonic() < until_s:
        if not order:
            # Each of them once before any comes again.
            order = generator.sample(names, len(names))
        trouble, begun_s = order.pop(), time.monotonic()
        try:
            await soak.round(trouble)
        except (Failed, AssertionError, TimeoutError) as problem:
            raise Failed(f"round {done + 1}, {trouble}: {str(problem) or type(problem).__name__}") from problem
        done += 1
        said = sum(len(each.said) for each in soak.publishers)
        say(f"round {done}: {trouble}: held, {time.monotonic() - begun_s:.0f} s, {said} messages so far")
    return done


async def run(lan: Lan, folder: Path, seed: int, count: int) -> int:
    generator = Random(seed)
    soak = Soak(lan, folder, generator, say)
    try:
        done = await rounds(soak, generator, count)
    except Failed as problem:
        say(f"FAILED, SEED={seed}: {problem}")
        for broker in (*soak.pair, soak.south):
            say(f"{broker.name} said at last: {broker.output.read_text()[-1_500:]}")
        for each in soak.publishers:
            if isinstance(each, PahoPublisher):
                # Who is to blame for a wrong order: what was sent in it, or the broker that took it.
                say(f"{each.name} sent at last: {'; '.join(each.sent)}")
        return 1
    finally:
        taken_s = sorted(soak.takeovers)
        await soak.end()
    if taken_s:
        middle = taken_s[len(taken_s) // 2]
        longest = f"{middle:.1f} s (median), {taken_s[-1]:.1f} s at most"
        say(f"{len(taken_s)} brokers killed, paused or cut off: the other one was ready after {longest}")
    said = Counter({each.name: len(each.said) for each in soak.publishers})
    promises = "none lost, none of QoS 2 twice, all in order"
    say(f"{done} rounds held, SEED={seed}: {said.total()} messages acknowledged, {promises}")
    return 0


def main() -> int:
    seed = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
    count = int(os.environ.get("ROUNDS") or 0)
    if why := why_no_namespaces() or why_no_postgres():
        print(f"cannot soak here: {why}")
        return 2
    say(f"SEED={seed}, {count or 'an hour of'} rounds")
    with Lan(MACHINES) as lan, folder_of_clusters() as folder:
        return asyncio.run(run(lan, folder, seed, count))


sys.exit(main())

"""L8: a log in PostgreSQL gives back what was appended, says what is wrong, and takes nothing without the lease."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, LiteralString

import pytest

from roamcast.server.storage import (
    DamagedLog,
    LeaseHeld,
    LeaseLost,
    StorageError,
    StorageFull,
    StorageSettings,
    Unreachable,
)
from roamcast.server.storage.postgres import Database, Lease, PostgresLog
from roamcast.server.storage.postgres.database import Link, Session, shut
from roamcast.server.storage.postgres.lease import STARTING_S
from roamcast.server.storage.postgres.log import snapshot_of
from roamcast.server.storage.postgres.schema import prepare
from roamcast.server.storage.store import Needed
from tests.ports import free_port
from tests.server.storage.clusters import Cluster, cluster, needs_postgres

LENGTH_S = 600.0
"""Longer than any test: none of them waits for a lease to be over."""


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


class Bench:
    """Leases and logs of brokers on one server, closed when a test is over."""

    def __init__(self, server: Cluster) -> None:
        self.server = server
        self.open = ExitStack()

    def lease(self, name: str = "a", **given: Any) -> Lease:
        lease = Lease(Database(self.server.url, name), LENGTH_S, **given)
        self.open.callback(lease.release)
        return lease

    def log(self, name: str = "a", settings: StorageSettings | None = None) -> PostgresLog:
        lease = self.lease(name)
        self.expire(name)
        lease.take()
        log = PostgresLog.open(lease, settings)
        self.open.callback(log.close)
        return log

    def expire(self, name: str = "a") -> None:
        """As if its holder had not been heard of for long enough."""
        if self.server.sql("SELECT to_regclass('roamcast.leases') IS NOT NULL") == [(True,)]:
            self.server.sql(f"UPDATE roamcast.leases SET deadline = '-infinity' WHERE broker = '{name}'")

    def contents(self, name: str = "a") -> tuple[bytes | None, list[bytes]]:
        """As another process reads it."""
        loaded = self.log(name).load()
        return loaded.snapshot, list(loaded.batches)


@pytest.fixture
def bench(server: Cluster) -> Iterator[Bench]:
    made = Bench(server)
    with made.open:
        yield made
    server.sql("DROP SCHEMA IF EXISTS roamcast CASCADE")


pytestmark = needs_postgres


def filled(log: PostgresLog, count: int = 5) -> PostgresLog:
    for number in range(count):
        log.append(b"batch %d" % number)
    return log


# What comes back.


def test_batches_come_back_in_order_and_lives_are_counted(bench: Bench) -> None:
    filled(bench.log(), 3).append_all([b"", b"more"])
    loaded = bench.log().load()
    assert (loaded.snapshot, list(loaded.batches), loaded.life) == (
        None,
        [b"batch 0", b"batch 1", b"batch 2", b"", b"more"],
        2,
    )


def test_a_snapshot_takes_the_place_of_the_batches_before_it(bench: Bench) -> None:
    log = filled(bench.log())
    state = bytes(range(256)) * 40_000
    log.snapshot(state)
    log.append(b"after")
    assert bench.contents() == (state, [b"after"])


def test_batches_behind_a_snapshot_stay(bench: Bench) -> None:
    log = filled(bench.log())
    log.snapshot(b"three", behind=2)
    log.append(b"six")
    with pytest.raises(ValueError, match="behind a snapshot"):
        log.snapshot(b"wrong", behind=4)
    assert bench.contents() == (b"three", [b"batch 3", b"batch 4", b"six"])


def test_a_snapshot_of_an_empty_log_is_kept(bench: Bench) -> None:
    bench.log().snapshot(b"")
    assert bench.contents() == (b"", [])


def test_brokers_of_other_names_share_a_database(bench: Bench) -> None:
    one, other = bench.log("one"), bench.log("other")
    one.append(b"of one")
    other.append(b"of the other")
    assert (bench.contents("one"), bench.contents("other")) == ((None, [b"of one"]), (None, [b"of the other"]))


def test_a_quota_is_held(bench: Bench) -> None:
    log = bench.log(settings=StorageSettings(bytes_max=100_000))
    log.append(b"x" * 90_000)
    with pytest.raises(StorageFull, match="the quota is 100000"):
        log.append(b"x" * 20_000)
    log.snapshot(b"small")
    log.append(b"x" * 20_000)


# What is noticed.


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("DELETE FROM roamcast.batches WHERE number = 2", "batch 2 of 5 is missing"),
        ("DELETE FROM roamcast.batches WHERE number = 5", "ends with batch 4, and 5 were safe"),
        ("UPDATE roamcast.batches SET body = 'other' WHERE number = 3", "batch 3 of 5 is damaged"),
        ("UPDATE roamcast.logs SET last = 4", "the row that says what is stored is damaged"),
        ("DELETE FROM roamcast.snapshots WHERE piece = 1", "the snapshot is cut off behind piece 0"),
        ("UPDATE roamcast.snapshots SET body = 'x' WHERE piece = 0", "piece 0 of the snapshot is damaged"),
    ],
)
def test_damage_is_named_and_nothing_behind_it_is_given_out(bench: Bench, change: str, complaint: str) -> None:
    log = bench.log()
    log.snapshot(b"state")
    filled(log, 4)
    bench.server.sql(change)
    with pytest.raises(DamagedLog, match=complaint) as told:
        bench.contents()
    assert "Restore the database from a backup" in str(told.value)


def test_a_database_that_went_back_is_noticed_by_the_broker_that_knows_better(bench: Bench) -> None:
    log = filled(bench.log())
    row = bench.server.sql("SELECT last, chain, checksum FROM roamcast.logs")[0]
    log.append(b"lost")
    import psycopg

    with psycopg.connect(bench.server.url) as connection:
        connection.execute("DELETE FROM roamcast.batches WHERE number = 6")
        connection.execute("UPDATE roamcast.logs SET last = %s, chain = %s, checksum = %s", row)
    with pytest.raises(LeaseLost, match="gone back to an earlier state, before batch 6"):
        log.append(b"next")


def test_tables_of_another_version_are_refused_and_left(bench: Bench) -> None:
    filled(bench.log(), 1)
    bench.server.sql("UPDATE roamcast.format SET version = 99")
    with pytest.raises(StorageError, match="tables are of version 99, and this roamcast knows 1"):
        bench.lease().take()


def test_a_database_that_is_not_there_is_said_without_its_password() -> None:
    database = Database(f"postgresql://me:secret@127.0.0.1:{free_port()}/roamcast", "a")
    with pytest.raises(Unreachable, match="the database cannot be reached") as told:
        Lease(database, LENGTH_S).take()
    assert "secret" not in str(told.value)


def test_a_missing_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StorageError, match=r"pip install 'roamcast\[postgres\]'"):
        Lease(Database("postgresql://127.0.0.1/roamcast", "a"), LENGTH_S).take()


# Who may write.


def test_a_held_lease_is_refused_with_its_holder_named(bench: Bench) -> None:
    bench.lease(holder="north-1, process 7").take()
    times_s = iter(range(0, 100_000, 10_000))
    with pytest.raises(LeaseHeld, match="served by north-1, process 7; start this one with --standby"):
        bench.lease(clock_s=lambda: float(next(times_s))).take()


def test_a_released_lease_is_free_at_once(bench: Bench) -> None:
    first, second = bench.lease(), bench.lease()
    first.take()
    assert second.try_take()
    first.release()
    assert not second.try_take()


def test_a_broker_that_lost_its_lease_writes_nothing(bench: Bench) -> None:
    log = filled(bench.log(), 2)
    after = bench.log()
    for write in (lambda: log.append(b"late"), lambda: log.snapshot(b"late")):
        with pytest.raises(LeaseLost, match="another broker has taken its place"):
            write()
    assert list(after.load().batches) == [b"batch 0", b"batch 1"]
    after.append(b"in time")
    assert bench.contents() == (None, [b"batch 0", b"batch 1", b"in time"])


def test_renewing_ends_when_another_broker_has_the_lease(bench: Bench) -> None:
    first, second = bench.lease(), bench.lease()
    first.take()
    assert first.renew()
    bench.expire()
    assert not second.try_take()
    with pytest.raises(Unreachable):
        # Its connection was ended by the other one.
        first.renew()
    assert not first.renew()
    assert not first.held


def test_a_lease_is_over_for_its_holder_when_it_could_not_be_renewed(bench: Bench) -> None:
    now_s = [0.0]
    lease = bench.lease(clock_s=lambda: now_s[0])
    lease.take()
    lease.serving()
    now_s[0] = LENGTH_S + STARTING_S - 1
    assert lease.held
    now_s[0] += 2
    assert not lease.held


def test_a_shorter_lease_counts_though_the_answer_is_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    lease = bench.lease(clock_s=lambda: now_s[0])
    lease.take()
    lease.serving()
    answered = lease._one

    def lost(query: LiteralString) -> None:
        answered(query)
        raise Unreachable("the connection broke")

    monkeypatch.setattr(lease, "_one", lost)
    with pytest.raises(Unreachable):
        lease.renew()
    now_s[0] = LENGTH_S + 1
    assert not lease.held


def test_a_deadline_from_before_the_clock_was_set_back_counts_as_passed(bench: Bench) -> None:
    first, second = bench.lease(), bench.lease()
    first.take()
    bench.server.sql("UPDATE roamcast.leases SET deadline = deadline + interval '1 hour'")
    assert not second.try_take()


def test_a_commit_that_holds_its_lease_is_waited_for(bench: Bench) -> None:
    """Whoever takes over sees all that the broker before could still commit, or ends it."""
    log = filled(bench.log(), 1)
    link = log._session.link()
    link.execute("BEGIN")
    link.execute("SELECT 1 FROM roamcast.leases WHERE broker = 'a' FOR KEY SHARE")
    assert bench.contents() == (None, [b"batch 0"])
    with pytest.raises(LeaseLost):
        log.append(b"late")


def test_a_standby_waits_on_while_tables_are_locked_or_its_connection_breaks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = bench.lease()
    failing = iter(["lock_timeout", "terminated", ""])

    def breaks(link: Link, _place: str) -> None:
        match next(failing):
            case "lock_timeout":
                link.execute("DO $$ BEGIN RAISE lock_not_available; END $$")
            case "terminated":
                link.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            case _:
                prepare(link, "here")

    monkeypatch.setattr("roamcast.server.storage.postgres.lease.prepare", breaks)
    for _ in range(2):
        with pytest.raises(Unreachable):
            lease.try_take()
    told = list[str]()
    assert lease.wait(told.append)
    assert not told


def test_a_backup_whose_connection_breaks_says_so(bench: Bench) -> None:
    filled(bench.log(), 3)
    of_backups = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '% backup'"
    with snapshot_of(Database(bench.server.url, "a")) as loaded:
        bench.server.sql(f"SELECT pg_terminate_backend(pid) FROM ({of_backups}) each")
        with pytest.raises(Unreachable, match="does not answer"):
            list(loaded.batches)


def test_a_backup_may_write_for_as_long_as_it_takes(bench: Bench) -> None:
    shown = "SELECT current_setting('idle_in_transaction_session_timeout')"
    database = Database(bench.server.url, "a")
    for idle_s, said in ((10.0, "10s"), (0.0, "0")):
        session = Session(database, "test", idle_s=idle_s)
        bench.open.callback(session.close)
        assert session.one(shown, {}, LENGTH_S) == (said,)


# Connections that break.


def ended(bench: Bench) -> None:
    of_logs = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '% active log'"
    bench.server.sql(f"SELECT pg_terminate_backend(pid) FROM ({of_logs}) each")


def test_a_lost_connection_is_made_again(bench: Bench) -> None:
    log = filled(bench.log(), 2)
    ended(bench)
    log.append(b"after")
    ended(bench)
    log.snapshot(b"state")
    assert bench.contents() == (b"state", [])


def breaking(log: PostgresLog, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """The next commit's connection breaks before the server has heard of it, or before its answer is here."""
    import psycopg

    execute, broken = psycopg.Connection.execute, list[str]()

    def breaks(link: Link, query: Any, *given: Any, **options: Any) -> Any:
        if broken or "roamcast.logs SET" not in query:
            return execute(link, query, *given, **options)
        broken.append(when)
        if when == "after":
            execute(link, query, *given, **options)
        shut(link)
        return execute(link, "SELECT 1")

    monkeypatch.setattr(psycopg.Connection, "execute", breaks)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_was_lost_is_made_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    log = filled(bench.log(), 1)
    breaking(log, monkeypatch, when)
    log.append_all([b"one", b"two"])
    log.append(b"three")
    assert bench.contents() == (None, [b"batch 0", b"one", b"two", b"three"])


def test_without_a_database_a_write_ends_with_the_lease(bench: Bench) -> None:
    now_s = [0.0]
    lease = bench.lease(clock_s=lambda: now_s[0])
    lease.take()
    log = PostgresLog.open(lease)
    bench.open.callback(log.close)
    tried = list[int]()

    def unreachable() -> Any:
        tried.append(1)
        now_s[0] += LENGTH_S
        raise Unreachable("the database does not answer")

    log._session.link = unreachable  # type: ignore[method-assign]
    with pytest.raises(LeaseLost, match="the database does not answer"):
        log.append(b"lost")
    assert len(tried) == 2


# Segments.


def test_segments_are_stored_with_batches_and_go_when_no_snapshot_needs_them(bench: Bench) -> None:
    log = filled(bench.log())
    log.append_all([b"more"], [(1, b"one"), (2, b"two"), (3, b"three")])
    assert (log.segment(1), log.segment(3)) == (b"one", b"three")
    log.snapshot(b"state", 0, [(4, b"four")], Needed(3, frozenset({2})))
    log.append(b"behind")
    other = bench.log()
    loaded = other.load()
    assert (loaded.snapshot, list(loaded.batches)) == (b"state", [b"behind"])
    assert list(loaded.segments) == [(2, b"two"), (4, b"four")]
    with pytest.raises(DamagedLog, match="segment 1 is missing"):
        other.segment(1)


def test_segments_count_for_the_quota_after_a_restart(bench: Bench) -> None:
    quota = StorageSettings(bytes_max=100_000)
    bench.log(settings=quota).append_all([b"batch"], [(1, b"x" * 90_000)])
    log = bench.log(settings=quota)
    list(log.load().batches)
    with pytest.raises(StorageFull, match="the quota is 100000"):
        log.append(b"x" * 20_000)


def test_segments_find_their_table_in_a_database_that_had_none(bench: Bench) -> None:
    filled(bench.log())
    bench.server.sql("DROP TABLE roamcast.segments")
    log = bench.log()
    log.append_all([b"more"], [(1, b"one")])
    assert log.segment(1) == b"one"

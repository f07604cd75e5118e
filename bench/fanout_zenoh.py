"""Zenoh for `bench.fanout`: its router, and clients that speak its protocol through its own library.

The router is a process that opens a session in the mode `router`; all of its work is done by threads of the library,
which is the one that the stand-alone router is made of. Rounds, windows and warm-up are those of `fanout_load`.
Batched messages are left to the library, which puts them together by itself; a message that is alone is sent
`express`, or it would wait for others.

`python -m bench.fanout_zenoh router PORT FOLDER` or `python -m bench.fanout_zenoh SPEC`, as `bench.fanout_load`.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.fanout_load import PATIENCE_S, PAYLOAD, Rounds, Spec, topic_of

SETTLE_S = 0.5


def opened(mode: str, where: dict[str, list[str]], login: dict[str, str]) -> Any:
    import zenoh

    config = zenoh.Config()
    config.insert_json5("mode", json.dumps(mode))
    for key, addresses in where.items():
        config.insert_json5(f"{key}/endpoints", json.dumps(addresses))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("transport/auth/usrpwd", json.dumps(login))
    return zenoh.open(config)


def route(port: int, folder: Path) -> None:
    """For as long as the process lives."""
    with opened("router", {"listen": [f"tcp/127.0.0.1:{port}"]}, {"dictionary_file": str(folder / "users")}):
        threading.Event().wait()


class Reader:
    """Counts what arrives, in a thread of the library."""

    def __init__(self, load: "Load", number: int) -> None:
        self.load = load
        self.got = 0
        self.subscriber = load.join().declare_subscriber(topic_of(load.spec, number), self._took)

    def _took(self, _: object) -> None:
        self.got += 1
        self.load.arrived(self.got)
        self.load.changed.set()


class Load(Rounds):
    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.changed = threading.Event()
        self.sessions: list[Any] = []
        self.readers = [Reader(self, number) for number in range(spec.subscribers)]
        self.writers = [self._writer(number) for number in range(spec.publishers)]
        # What is wanted has to come round to every publisher before the first message.
        time.sleep(SETTLE_S)

    def join(self) -> Any:
        login = {"user": self.spec.user, "password": self.spec.password}
        self.sessions.append(opened("client", {"connect": [f"tcp/127.0.0.1:{self.spec.port}"]}, login))
        return self.sessions[-1]

    def _writer(self, number: int) -> Any:
        import zenoh

        blocks, alone = zenoh.CongestionControl.BLOCK, self.spec.batch == 1
        return self.join().declare_publisher(topic_of(self.spec, number), congestion_control=blocks, express=alone)

    def got(self) -> list[int]:
        return [each.got for each in self.readers]

    def send(self) -> None:
        for writer in self.writers:
            for _ in range(self.spec.batch):
                writer.put(PAYLOAD)

    def read(self) -> None:
        if not self.changed.wait(PATIENCE_S):
            raise TimeoutError(f"nothing came for {PATIENCE_S:.0f} s; {self.on_its_way()} are on their way")
        self.changed.clear()

    def serve(self) -> None:
        super().serve()
        for session in self.sessions:
            session.close()


def main() -> None:
    if sys.argv[1] == "router":
        route(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        Load(msgspec.json.decode(sys.argv[1], type=Spec)).serve()


if __name__ == "__main__":
    main()

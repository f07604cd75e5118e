"""What raising and delivering one event cost a node of the proximity protocol (figures 11 and 12 of STEAM).

As the experiment `steam-latency` measures it, but far beyond the paper's scale: the producer announces from 1 to
10,000 other types, the consumer holds as many subscriptions to other subjects. Neither may make an event dearer.
"""

from roamcast.papers.steam_latency import Pair

TAKES = "5 s"
SCALES = (1, 10, 100, 1_000, 10_000)
TURNS = 80


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    for others in SCALES:
        pair = Pair(announcements=others + 1, subscriptions=others + 1)
        for _ in range(TURNS):
            pair.turn()
        print(
            f"{others:6} other types and subscriptions: raise {pair.taken_us['raising']:5.1f} µs, "
            f"deliver {pair.taken_us['delivering']:5.1f} µs"
        )
        figures |= {
            f"raise_us_{others}": pair.taken_us["raising"],
            f"deliver_us_{others}": pair.taken_us["delivering"],
        }
    return figures


if __name__ == "__main__":
    main()

"""One event against very many subscriptions, fast; equal to `model.match`."""

from roamcast.matching.engine import Engine, Matches

__all__ = ["Engine", "Matches"]

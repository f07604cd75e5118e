"""One event against very many subscriptions, fast; equal to `model.match`."""

from roamcast.matching.engine import Engine
from roamcast.matching.finding import Matches

__all__ = ["Engine", "Matches"]

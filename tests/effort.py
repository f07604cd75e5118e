"""How much a random test tries: a tenth in the fast tier, everything in CI.

Property tests ask the hypothesis profile: `quick` is the default, `--hypothesis-profile thorough` tries everything.
Protocol trials have a seed each: the first few are in the fast tier, the others are marked `slow`.
"""

import os
from typing import Any

import pytest
from hypothesis import settings

QUICK, THOROUGH = "quick", "thorough"
settings.register_profile(QUICK, deadline=None, print_blob=True, derandomize=True)
# CI repeats itself; a person who runs everything gets fresh examples.
settings.register_profile(THOROUGH, deadline=None, print_blob=True, derandomize="CI" in os.environ)


def examples(thorough: int, **more: Any) -> settings:
    """Settings of a property test that tries so many examples in CI."""
    if settings.get_current_profile_name() == THOROUGH:
        return settings(max_examples=thorough, **more)
    return settings(max_examples=max(thorough // 10, min(thorough, 10)), **more)


def seeds(thorough: int, quick: int = 2) -> pytest.MarkDecorator:
    """Parametrize `seed` from 0; seeds from `quick` on are slow. ROAMCAST_SEEDS asks for another number of them."""
    count = int(os.environ.get("ROAMCAST_SEEDS", thorough))
    marked = [pytest.param(seed, marks=pytest.mark.slow if seed >= quick else ()) for seed in range(count)]
    return pytest.mark.parametrize("seed", marked)

"""Movement models: a file with a version that is checked when it is read (P3, M10)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.movement import (
    VERSION,
    Habits,
    MovementModel,
    cell_name,
    cell_named,
    load_model,
    model_from,
    save_model,
)
from roamcast.model.values import BadValue
from tests.effort import examples

STREET = MovementModel(
    VERSION,
    {"0,0": Habits(30.0, {"1,0": 9, "0,1": 2}), "1,0": Habits(12.5, {"0,0": 3}), "0,1": Habits(80.0)},
    250.0,
)


@st.composite
def models(draw: st.DrawFn) -> MovementModel:
    names = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=6, unique=True))
    places = {}
    for name in names:
        others = [each for each in names if each != name]
        following = draw(st.dictionaries(st.sampled_from(others), st.integers(1, 99)) if others else st.just({}))
        places[name] = Habits(draw(st.floats(0.001, 1e6)), following)
    return MovementModel(VERSION, places)


@examples(60)
@given(models())
def test_m10_what_is_saved_is_what_is_loaded(tmp_path_factory: pytest.TempPathFactory, model: MovementModel) -> None:
    path = tmp_path_factory.mktemp("model") / "movement.json"
    save_model(model, path)
    assert load_model(path) == model


@examples(60)
@given(st.binary(max_size=60))
def test_m10_bytes_that_are_no_model_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(BadValue, match="movement model"):
        model_from(data)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"version": 2, "places": {}}', "version 2"),
        ('{"version": 1, "places": {"a": {"residence_s": 0}}}', "residence_s is 0"),
        ('{"version": 1, "places": {"a": {"residence_s": 1, "next": {"b": 1}}}}', "not among the places"),
        ('{"version": 1, "places": {"a": {"residence_s": 1, "next": {"a": 1}}}}', "goes elsewhere"),
        ('{"version": 1, "places": {"": {"residence_s": 1}}}', "needs a name"),
        ('{"version": 1, "cell_m": 250, "places": {"a": {"residence_s": 1}}}', "not a cell"),
        ('{"version": 1, "cell_m": -1, "places": {}}', "cell_m"),
        ('{"version": 1, "places": {}, "speed": 3}', "speed"),
    ],
)
def test_m10_a_model_that_is_wrong_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(BadValue, match=reason):
        model_from(text.encode())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"nowhere\.json"):
        load_model(tmp_path / "nowhere.json")


def test_m10_most_went_there() -> None:
    assert STREET.likeliest("0,0") == "1,0"
    assert STREET.likeliest("0,1") is None
    assert STREET.likeliest("9,9") is None
    assert STREET.residence_s("1,0") == 12.5
    assert STREET.residence_s("9,9") is None


def test_of_two_equally_frequent_steps_the_first_by_name_is_taken() -> None:
    model = MovementModel(VERSION, {"a": Habits(1, {"c": 2, "b": 2}), "b": Habits(1), "c": Habits(1)})
    assert model.likeliest("a") == "b"


def test_r4_the_steps_that_were_seen_are_a_movement_graph() -> None:
    assert STREET.graph().ploc("1,0", 1) == {"1,0", "0,0"}
    assert STREET.graph().ploc("1,0", 2) == {"1,0", "0,0", "0,1"}


def test_cells_have_names() -> None:
    assert cell_named(cell_name((-3, 14))) == (-3, 14)
    for wrong in ("3", "3,", "3,4,5", "03,4", "a,b", ""):
        with pytest.raises(BadValue):
            cell_named(wrong)

"""What the reader of pickles lets through, and that it runs nothing."""

from __future__ import annotations

import pickle
import pickletools
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from aliquot.verifiers.builtin.molecules.pickled_arrays import NDARRAY, Record, RefusedPickle, read_pickle

NODE = np.dtype([("left", "<i8"), ("value", "<f8"), ("flag", "u1")])


class Model:
    """Stands for a class of another library."""


def dumped(value) -> bytes:
    """As numpy 1 wrote it."""
    return pickle.dumps(value, protocol=3).replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def name_of(cls) -> str:
    return f"{cls.__module__} {cls.__qualname__}"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.int32).reshape(3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([(1, 0.5, 1), (-1, 2.25, 0)], NODE),
        np.array([], np.float32),
        np.array(7, ">i2"),
        np.array([True, False]),
    ],
)
def test_an_array_comes_out_as_it_went_in(array):
    found = read_pickle(dumped(array), ())
    assert isinstance(found, Record) and found.name == NDARRAY
    assert found.state.dtype == array.dtype and np.array_equal(found.state, array)


def test_objects_become_records_and_plain_values_stay_plain():
    model = Model()
    model.parts = [Model(), Model()]
    model.parts[0].weights = np.array([1.0, 2.0])
    model.settings = {"kernel": "rbf", "gamma": 0.25, "shape": (3, 70_000, -1), "none": None, "flags": [True, False]}
    model.size = np.float64(2.5)
    found = read_pickle(dumped(model), [name_of(Model)])
    assert found.name == name_of(Model) and found.state["size"] == 2.5
    assert found.state["settings"] == model.settings
    assert found.state["parts"][0].state["weights"].state.tolist() == [1.0, 2.0]
    assert found.state["parts"][1].state is None


class Calls:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(protocol, tmp_path):
    evidence = tmp_path / "ran"
    attacks = [Calls(Path.touch, evidence), Calls(exec, f"open({str(evidence)!r}, 'w')"), Calls(eval, "1")]
    for attack in [*attacks, [np.zeros(2), *attacks]]:
        with pytest.raises(RefusedPickle):
            read_pickle(pickle.dumps(attack, protocol=protocol), [name_of(Model)])
    assert not evidence.exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (dumped(Model()), "not allowed"),
        (dumped(np.array([object()], dtype=object)), "not one of numbers"),
        (dumped(np.array(["text"])), "not one of numbers"),
        (pickle.dumps(np.zeros(3), protocol=5), "not allowed"),
        (dumped(np.zeros(3)).replace(b"K\x03\x85", b"K\x04\x85"), "does not hold"),
        (dumped({"a": 1})[:-1], "damaged"),
        (b"\x80\x03.", "damaged"),
        (b"\x80\x03(K\x01K\x02K\x03u.", "damaged"),
        (b"\x80\x03h\x05.", "damaged"),
        (b"\x80\x03}K\x01a.", "expected a list"),
        (b"\x80\x03\x8f.", "not allowed"),
        (b"\x80\x03cnumpy\nndarray\nN\x81.", "expected a tuple"),
        (b"\x80\x03cnumpy\nndarray\n)R.", "cannot be called"),
        (b"\x80\x03K\x01}b.", "expected a Record"),
        (b"not a pickle", "damaged"),
        (b"", "damaged"),
    ],
)
def test_whatever_else_is_in_it_is_refused_with_a_typed_error(data, says):
    with pytest.raises(RefusedPickle, match=says):
        read_pickle(data, ())


def test_cutting_or_changing_a_byte_anywhere_never_does_more_than_refuse(tmp_path):
    model = Model()
    model.state = {"array": np.arange(4.0), "name": "x"}
    whole = dumped(model)
    assert len(list(pickletools.genops(whole))) > 20
    for i in range(len(whole)):
        for data in (whole[:i], whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :]):
            with suppress(RefusedPickle):  # any other exception fails the test
                read_pickle(data, [name_of(Model)])

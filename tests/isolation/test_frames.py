"""What a frame may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.isolation.frames import (
    HEADER,
    MAX_FRAME,
    Call,
    ProtocolError,
    Reply,
    decode_reply,
    frame,
    is_json,
    unframe,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=20,
)


@given(st.lists(JSON), st.integers(0, 2**63 - 1))
def test_a_message_comes_back_as_it_went(items, nonce):
    data = frame(Reply(nonce=nonce, items=items))
    assert int.from_bytes(data[:HEADER], "big") == len(data) - HEADER
    payload = unframe(data)
    assert payload is not None and decode_reply(payload) == Reply(nonce=nonce, items=items)
    assert all(map(is_json, items))


def test_part_of_a_frame_is_not_yet_a_frame():
    data = frame(Reply(nonce=1, items=["abc"]))
    assert all(unframe(data[:n]) is None for n in range(len(data)))


def test_a_frame_too_long_or_with_bytes_behind_it_breaks_the_protocol():
    with pytest.raises(ProtocolError, match="announced"):
        unframe((2**32 - 1).to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="follow"):
        unframe(frame(Reply(nonce=1)) + b"x")
    with pytest.raises(ProtocolError, match="8 MiB"):
        frame(Call(1, "verify", ["x" * MAX_FRAME], 1.0))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1, {"a": -float("inf")}], b"raw", {1: 2}])
def test_only_finite_json_is_json(value):
    assert not is_json(value)


def test_a_value_that_nests_without_end_is_refused():
    value: list = []
    for _ in range(10_000):
        value = [value]
    assert not is_json(value)

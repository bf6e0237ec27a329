"""Every public callable with the hostile values of its parameters: clear errors, nothing invalid accepted, no NaN."""

from __future__ import annotations

import warnings

import pytest

from hostile.calls import call, public, unsound, valid_arguments

PUBLIC = public()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_valid_call(name: str) -> None:
    """If this fails for a new name: say in tests/hostile/calls.py what a valid call of it is."""
    if name == "reproduce":
        pytest.skip("takes minutes; its refusals are tried below")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = call(PUBLIC[name], valid_arguments(name, PUBLIC[name]))
    assert unsound(result) != "nan"

"""Answers have the precision and the device of what was given, which stays as it is however it lies in memory."""

import pytest
import torch
from cases import normal

from droptics import linalg, norms

CALLS = {
    "allocate": lambda of: linalg.allocate(of(5).abs(), of(4).abs() + 1),
    "equalize_columns": lambda of: linalg.equalize_columns(of(6, 4), of(3, 4)),
    "equalize_columns alone": lambda of: linalg.equalize_columns(of(6, 4)),
    "equalize_columns_": lambda of: linalg.equalize_columns_(of(6, 4)),
    "equalizer": lambda of: linalg.equalizer(of(4, 4)),
    "equalizer of a batch": lambda of: linalg.equalizer(of(2, 4, 4)),
    "hadamard_equalizer": lambda of: linalg.hadamard_equalizer(4, of(1).dtype),
    "k_support_shrink": lambda of: linalg.k_support_shrink(of(5), 0.3, 2),
    "psd_eigen": lambda of: linalg.psd_eigen(of(5, 5) @ of(5, 5).mT),
    "psd_inverse_root": lambda of: linalg.psd_inverse_root(of(5, 5) @ of(5, 5).mT),
    "psd_root": lambda of: linalg.psd_root(of(5, 5) @ of(5, 5).mT),
    "schur_horn": lambda of: linalg.schur_horn(of(4), of(4).mean().expand(4)),
    "shrink": lambda of: linalg.shrink(of(5), 0.3, 3),
    "shrink_unequal": lambda of: linalg.shrink_unequal(of(5).abs(), of(4).abs()),
    "k_support": lambda of: norms.k_support(of(5), 2),
    "nuclear": lambda of: norms.nuclear(of(4, 5)),
    "path_norm": lambda of: norms.path_norm([of(4, 5), of(2, 4)]),
    "weighted_trace": lambda of: norms.weighted_trace(of(4, 5), of(4).abs(), of(5).abs()),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_answers_are_of_the_kind_that_was_given(name, dtype):
    found = CALLS[name](lambda *shape: normal(*shape).to(dtype))
    parts = found if isinstance(found, tuple) else (found,)
    assert [part.dtype for part in parts] == [dtype] * len(parts)
    assert all(part.device.type == "cpu" for part in parts)


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)], ids=["by rows", "by columns"])
@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"equalize_columns_"}))
def test_what_was_given_stays_as_it_is(name, axes):
    given = []

    def of(*shape):
        value = normal(*shape)
        if value.ndim == 2:
            value = value.permute(axes).contiguous().permute(axes)
        given.append((value, value.clone()))
        return value

    CALLS[name](of)
    assert all(torch.equal(value, before) for value, before in given)


def test_every_public_routine_is_asked():
    assert set(linalg.__all__) <= set(CALLS)

"""What a module is made of: every way in which its code can reach another value is another structure, or none."""

import functools
import math
import os
import random
import sys
import types

import pytest
import torch
from torch import nn
from torch.nn import functional

from droptics.predictions.structures import structure

SCALE, TABLE, RATES = 1.0, {"scale": 1.0}, (0.1, (0.2, "b"))


def scaled(x):
    return SCALE * x


def scaled_by_default(x, scale=1.0):
    return scale * x


def scaled_by_keyword(x, *, scale=1.0):
    return scale * x


def counting(x):
    counting.calls = 1
    return x


def inner(x):
    return outer(x)


def outer(x):
    return scaled(x)


def closed_over(scale):
    return lambda x: scale * x


keeping = closed_over(1.0)
library = types.ModuleType("a_library_of_others")
library.scaled, library.SCALE = scaled, 1.0


class Tools:
    scale = 1.0


def decorated(forward):
    @functools.wraps(forward)
    def wrapper(self, x):
        return keeping(forward(self, x))

    return wrapper


class Net(nn.Module):
    """Followed whatever its `forward` is."""

    scale = 1.0

    def __init__(self):
        super().__init__()
        self.head, self.rates = nn.Linear(3, 2), RATES

    def forward(self, x):
        return self.head(x)

    def rescaled(self, x):
        return self.scale * x

    @property
    def size(self):
        return SCALE

    @staticmethod
    def static(x):
        return SCALE * x


class Plain(Net):
    def forward(self, x):
        return self.head(torch.relu(x) * math.sqrt(2) + functional.gelu(x) * len(self.rates))


class ByFunction(Net):
    def forward(self, x):
        return self.head(inner(x))


class ByMethod(Net):
    def forward(self, x):
        return self.head(self.rescaled(x))


class ByProperty(Net):
    def forward(self, x):
        return self.head(self.size * x)


class ByStatic(Net):
    def forward(self, x):
        return self.head(self.static(x))


class ByList(Net):
    def forward(self, x):
        return self.head(sum([scaled(part) for part in (x, x)]))


class ByLambda(Net):
    def forward(self, x):
        first = lambda value: scaled(value)  # noqa: E731, PLW0108
        return self.head(first(x))


class ByLibrary(Net):
    def forward(self, x):
        return self.head(library.scaled(x))


class ByWrapper(Net):
    @decorated
    def forward(self, x):
        return self.head(scaled(x))


class ByParent(ByFunction):
    def forward(self, x):
        return super().forward(x)


FOLLOWED = [ByFunction, ByMethod, ByProperty, ByStatic, ByList, ByLambda, ByLibrary, ByWrapper, ByParent]


def test_modules_of_torchs_own_functions_are_followed():
    module = Plain()
    found = structure(module)
    assert found is not None
    with torch.no_grad():
        module.head.weight.mul_(2)
    assert structure(module.eval()) == found
    assert structure(Plain()) == found
    assert structure(nn.Sequential(module)) != found


@pytest.mark.parametrize("kind", FOLLOWED)
def test_a_value_that_followed_code_reads_is_part_of_it(kind, monkeypatch):
    module = kind()
    found = structure(module)
    assert found is not None
    assert structure(module) == found
    if kind is ByMethod:
        monkeypatch.setattr(Net, "scale", 2.0)
    else:
        monkeypatch.setitem(globals(), "SCALE", 2.0)
    changed = structure(module)
    assert changed is not None
    assert changed != found


def test_a_function_put_in_place_of_another_is_noticed(monkeypatch):
    module = ByFunction()
    found = structure(module)
    monkeypatch.setitem(globals(), "outer", scaled_by_default)
    assert structure(module) != found
    found = structure(module)
    monkeypatch.setattr(scaled_by_default, "__defaults__", (2.0,))
    assert structure(module) != found
    monkeypatch.setitem(globals(), "outer", scaled_by_keyword)
    found = structure(module)
    assert found is not None
    monkeypatch.setattr(scaled_by_keyword, "__kwdefaults__", {"scale": 2.0})
    assert structure(module) != found
    module = ByWrapper()
    found = structure(module)
    monkeypatch.setitem(globals(), "keeping", closed_over(2.0))
    assert structure(module) != found


def forwards():
    """Code that reaches what no name of it holds still."""
    generator = torch.Generator()

    def importing(self, x):
        import __main__ as main

        return main.scaled(x)

    def by_text(self, x):
        return getattr(self, "head" + "")(x)

    def by_closure(self, x):
        return x + torch.rand(x.shape, generator=generator)

    def by_default(self, x, scales=[1.0]):  # noqa: B006 - that is what is meant
        return scales[0] * x

    def by_keyword(self, x, *, scales=[1.0]):  # noqa: B006
        return scales[0] * x

    def in_pairs(self, x, scales=(1.0, [2.0])):
        return scales[1][0] * x

    def fresh(self, x):
        return x + torch.rand(x.shape, generator=torch.Generator())

    return {
        "import": importing,
        "text": by_text,
        "closure": by_closure,
        "default": by_default,
        "keyword": by_keyword,
        "list in a tuple": in_pairs,
        "fresh generator": fresh,
        "dictionary": lambda self, x: TABLE["scale"] * x,
        "class of others": lambda self, x: Tools.scale * x,
        "numbers of the function": lambda self, x: counting(x),
        "environment": lambda self, x: float(os.environ["SCALE"]) * x,
        "random numbers": lambda self, x: random.random() * x,
        "file": lambda self, x: open("scale").read() * x,
        "system": lambda self, x: sys.getrecursionlimit() * x,
    }


@pytest.mark.parametrize("way", list(forwards()))
def test_what_may_change_unseen_has_no_structure(way):
    counting(0)
    kind = type("Other", (Net,), {"forward": forwards()[way]})
    assert structure(kind()) is None


@pytest.mark.parametrize("name", ["__call__", "_call_impl", "__getattr__", "__getattribute__"])
def test_what_stands_in_front_of_forward_has_no_structure(name):
    kind = type("Other", (Net,), {name: getattr(Net, name, None)})
    assert structure(kind()) is None


def test_a_forward_put_into_a_class_of_torch_has_no_structure(monkeypatch):
    module = nn.Sequential(nn.Linear(3, 2))
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: TABLE["scale"] * x)
    assert structure(module) is None


def test_a_wrapper_that_bears_a_name_of_torch_is_followed():
    @functools.wraps(functional.relu)
    def disguised(x):
        return TABLE["scale"] * x

    def forward(self, x):
        return disguised(x)

    kind = type("Other", (Net,), {"forward": forward})
    assert disguised.__module__.partition(".")[0] == "torch"
    assert structure(kind()) is None

"""Estimators by scikit-learn's rules that do not load it: that takes a second, and memory of a cluster's client.

Parameters are those of the constructor, kept under their names; `clone`, searches and pipelines ask for no more.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self


def clone(estimator: Any) -> Any:
    """A new one with the same parameters, not fitted: scikit-learn's."""
    from sklearn.base import clone as new  # noqa: PLC0415 - see above

    return new(estimator)


class Estimator:
    """Parameters by name, and what is said before a fit."""

    if TYPE_CHECKING:  # constructors keep their parameters by name

        def __getattr__(self, name: str) -> Any: ...

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has run: what it finds is kept under names that end in _."""
        return any(name.endswith("_") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator  # noqa: PLC0415 - see above

        return BaseEstimator.__sklearn_tags__(self)

    def _fitted(self) -> Any:
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError  # noqa: PLC0415 - see above

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also those of a parameter that is an estimator, as name__its_own."""
        mine = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        inner = {name: value for name, value in mine.items() if deep and hasattr(value, "get_params")}
        return mine | {
            f"{name}__{key}": found for name, value in inner.items() for key, found in value.get_params().items()
        }

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by the names of `get_params`; they count from the next fit on."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            owner, _, inner = name.partition("__")
            if inner:
                getattr(self, owner).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The call that makes it: parameters that are not at their defaults."""
        defaults = inspect.signature(type(self)).parameters
        given = ((name, repr(value)) for name, value in self.get_params(deep=False).items())
        shown = ", ".join(f"{name}={text}" for name, text in given if text != repr(defaults[name].default))
        return f"{type(self).__name__}({shown})"

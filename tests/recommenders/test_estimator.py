"""The estimators against scikit-learn's own base class, and what they load."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    DropoutCompletionCV,
    ImplicitDropoutCompletion,
    LocalAutoencoder,
    RidgeCompletion,
    StackedCompletion,
    StackedRanker,
)

KINDS = [
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    DropoutCompletionCV,
    ImplicitDropoutCompletion,
    LocalAutoencoder,
    RidgeCompletion,
    StackedCompletion,
    StackedRanker,
]


def twin(kind: type) -> type:
    """The same constructor over scikit-learn's base class."""
    body = {"__init__": kind.__init__, "_remember": getattr(kind, "_remember", None)}
    return type(kind.__name__, (BaseEstimator,), body)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_those_that_scikit_learn_would_say(kind):
    mine, theirs = kind(), twin(kind)()
    assert mine.get_params() == theirs.get_params()
    name = sorted(mine.get_params())[0]
    assert mine.set_params(**{name: 97}) is mine
    assert mine.get_params() == theirs.set_params(**{name: 97}).get_params()
    assert repr(mine) == f"{kind.__name__}({name}=97)" == repr(theirs)
    assert clone(mine).get_params() == mine.get_params()
    assert get_tags(mine) == get_tags(theirs)
    with pytest.raises(NotFittedError):
        check_is_fitted(mine)


def test_parameters_of_a_parameter_have_its_name_before_theirs():
    inner = DropoutCompletion(7)
    mine, theirs = (made(estimator=inner) for made in (DropoutCompletionCV, twin(DropoutCompletionCV)))
    assert mine.get_params() == theirs.get_params()
    assert mine.get_params(deep=False).keys() == theirs.get_params(deep=False).keys()
    mine.set_params(estimator__width=9)
    assert mine.estimator.width == 9
    assert clone(mine).estimator is not mine.estimator


def test_names_that_no_parameter_has_are_refused():
    with pytest.raises(ValueError, match="DropoutCompletion has no parameter 'breadth'; it has width, drop"):
        DropoutCompletion().set_params(breadth=3)


def test_a_grid_is_searched():
    pairs = np.indices((20, 10)).reshape(2, -1).T
    values = 3.0 + (-1.0) ** pairs.sum(1)  # all of it is a product, which the larger rate shrinks
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(DropoutCompletion(2, sweeps=3), {"drop": [0.1, 0.95]}, cv=folds, error_score="raise")
    assert search.fit(pairs, values).best_params_ == {"drop": 0.1}


def test_scikit_learn_is_not_loaded():
    """It takes a second, and 70 MB that the client of a cluster is not to need."""
    code = "import sys, droptics.recommenders; print(sorted({'sklearn', 'pandas', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

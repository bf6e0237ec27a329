"""Pictures are drawn without a display, and leave no trace in pyplot."""

import io

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np

from droptics import plots


def read(png):
    assert png.startswith(b"\x89PNG")
    return matplotlib.image.imread(io.BytesIO(png))


def test_pictures_have_ink_and_pyplot_knows_nothing_of_them():
    before = plt.get_fignums()
    band = {"a": ([0.5, 1.5], [1.5, 2.5])}
    figures = [
        plots.lines(
            [1, 2], {"a": [1, 2], "b": [2, 1]}, xlabel="x", ylabel="y", log="xy", bands=band, levels={"l": 1.5}
        ),
        plots.bars({"a": [1, 2], "b": [3, 4]}, ["p", "q"], ylabel="y"),
        plots.heatmap([[1, 2], [3, 4]]),
    ]
    for figure in figures:
        image = read(plots.as_png(figure))
        assert np.ptp(image) > 0.5
    assert plt.get_fignums() == before
    assert plots.as_data_uri(plots.as_png(figures[0])).startswith("data:image/png;base64,")

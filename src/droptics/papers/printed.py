"""What the works print beside each comparison of their figures: numbers where they give them, else their words.

One page, to be read against the papers. A comparison finds its line by a part of its label; the first that fits counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from droptics.evidence.engines import Row
from droptics.evidence.figures import Expectation, Figure, Scale
from droptics.papers.departures import DEPARTURES

MIANJY_1 = (
    ("minima are global", "the minima are equalized and global (no number)"),
    ("saddles above", "saddle points in between (no number)"),
    ("origin is a maximum", "a maximum at the origin (no number)"),
)
MIANJY_2 = (("distance to the optimum", "quickly converges to an equalized global optimum (no number)"),)
MIANJY_3 = (
    ("objective over optimum", "curves meet the optimal value (no number)"),
    ("spread of the scores", "the variance goes to zero very quickly"),
    ("larger lambda equalizes", "the larger lambda, the faster the weights become equalized"),
    ("variance of the scores rises", "the measure decreases monotonically"),
    ("standard errors", "not printed: Algorithm 1 against the objective it descends"),
    ("never below it", "the red line is the optimal value"),
)
STRUCTURED = (
    ("input correlation 0.9", "not printed: the paper's inputs are standard normal"),
    ("standard errors", "stochastic and deterministic curves coincide (no number)"),
    ("stochastic", "stochastic and deterministic curves coincide (no number)"),
    ("over the global minimum", "converges to the global minimum (no number)"),
    ("never below it", "the global minimum is a lower bound"),
    ("DropConnect is Dropout", "DropConnect is equivalent to Dropout"),
    ("optimum at the end", "converges to the global minimum (no number)"),
)
SLIDING = (
    ("corrected rate keeps", "the rate is adjusted to the same retain probability, 0.5"),
    ("sliding against grid", "both schemes behave alike (no number)"),
    ("uncorrected rate", "not printed: what happens without the adjustment"),
    ("at the end", "converges to the global minimum (no number)"),
    ("standard errors", "stochastic and deterministic curves coincide (no number)"),
)
PRINTED: dict[str, Sequence[tuple[str, str]]] = {
    "mianjy2018-fig1": MIANJY_1,
    "thesis-fig2-1": MIANJY_1,
    "mianjy2018-fig2": MIANJY_2,
    "thesis-fig2-2": MIANJY_2,
    "mianjy2018-fig3": MIANJY_3,
    "thesis-fig2-3": MIANJY_3,
    "pal2020-fig1": STRUCTURED,
    "pal2020-fig2": (
        ("falls", "the objective decreases over training"),
        ("lower bound holds", "the bound is a lower bound"),
        ("close to the bound", "approaches the lower bound (no number)"),
        ("singular value", "singular values close to the predicted ones (no number)"),
    ),
    "pal2020-fig3": STRUCTURED,
    "pal2020-fig4": SLIDING,
    "pal2020-fig5": STRUCTURED,
    "pal2020-fig6": STRUCTURED,
    "helmbold2017-fig1": (("criterion", "54"), ("risk", "64"), ("penalty", "-10")),
    "helmbold2017-fig2": (
        ("dropout: largest", "the error does not depend on the scale (no number)"),
        ("weight decay", "the error falls as the scale of the inputs grows (no number)"),
        ("without either", "not printed: training without dropout and decay"),
    ),
    "thesis-fig3-2": (
        ("sum of singular values", "stronger dropout shrinks the singular values more"),
        ("rank does not grow", "stronger dropout gives lower rank"),
        ("against the optimum's", "not printed: how the trained rank compares with the optimum's"),
    ),
    "thesis-fig3-3": (
        ("end against start", "the gap decreases steadily (no number)"),
        ("slowest", "not printed: which order is slowest"),
        ("norm of the map", "not printed: the norm of the map"),
    ),
    "thesis-tab4-1": (
        ("width 30: best dropout against plain SGD at the end", "0.7805 < 0.8041 (MovieLens 10M)"),
        ("width 70: best dropout against plain SGD at the end", "0.7763 < 0.8315 (MovieLens 10M)"),
        ("width 110: best dropout against plain SGD at the end", "0.7742 < 0.8431 (MovieLens 10M)"),
        ("width 150: best dropout against plain SGD at the end", "0.7722 < 0.8472 (MovieLens 10M)"),
        ("width 190: best dropout against plain SGD at the end", "0.7720 < 0.8473 (MovieLens 10M)"),
        ("width 30: best dropout against the best iterate", "0.7805 < 0.7938 (MovieLens 10M)"),
        ("width 70: best dropout against the best iterate", "0.7763 < 0.7897 (MovieLens 10M)"),
        ("width 110: best dropout against the best iterate", "0.7742 < 0.7873 (MovieLens 10M)"),
        ("width 150: best dropout against the best iterate", "0.7722 < 0.7858 (MovieLens 10M)"),
        ("width 190: best dropout against the best iterate", "0.7720 < 0.7844 (MovieLens 10M)"),
        ("best dropout against plain SGD", "dropout is better at every width printed (30 to 190)"),
        ("least squares", "not printed: least squares"),
        ("against the best printed", "not printed: rates above 0.4"),
        ("best rate", "0.1 at width 30, 0.3 at 70, 0.3 at 110, 0.4 at 150 and 190"),
        ("best RMSE", "0.7805 at width 30 falls to 0.7720 at 190"),
    ),
    "thesis-fig4-1": (
        ("gap falls", "the gap is smaller for larger p"),
        ("least training error", "plain SGD is the fastest in minimizing the empirical risk"),
    ),
    "thesis-fig4-2": (
        ("phi of plain SGD", "even plain SGD is biased towards less co-adaptation"),
        ("training accuracy", "1 (100 %)"),
        ("width 1024 against 16: generalization gap", "the gap grows with the width"),
        ("width 1024 against 16: phi", "more co-adaptation in wider networks"),
        ("phi", "a higher rate means less co-adaptation"),
        ("generalization gap", "increasing the rate decreases the gap"),
        ("alpha", "a smaller bound goes with a smaller gap"),
    ),
    "thesis-fig5-1": (
        ("line minus loss", "the line bounds the loss from above for z < 0"),
        ("equality", "tight at zero"),
    ),
    "thesis-fig5-2": (
        ("drop 0.5: distance", "the gap is larger for narrower networks"),
        ("drop", "the gap is larger for higher rates"),
    ),
    "thesis-fig5-3": (("width", "sub-networks become more competitive as the width grows"),),
    "thesis-fig6-1": (
        ("cross-entropy", "cross-entropy is a convex upper bound"),
        ("reflected", "the reflected loss is a concave lower bound"),
    ),
    "thesis-fig6-2": (
        ("greedy", "the reflected loss is far more effective (bars, no number)"),
        ("", "the reflected loss finds more flips among the top k (bars, no number)"),
    ),
    "thesis-tab6-1": (
        ("standard: R-FGSM", "0.236 = 0.236"),
        ("standard: R-BIM", "0.286 = 0.286"),
        ("standard: R-PGD-2", "0.256 > 0.003"),
        ("R-PGD-2: R-FGSM", "0.004 = 0.004"),
        ("R-PGD-2: R-BIM", "0.006 = 0.006"),
        ("R-PGD-2: R-PGD-2", "0.008 > 0.0"),
        ("R-PGD-inf: R-FGSM", "0.003 = 0.003"),
        ("R-PGD-inf: R-BIM", "0.004 = 0.004"),
        ("R-PGD-inf: R-PGD-2", "0.042 > 0.002"),
        ("PGD-inf: R-FGSM", "0.004 = 0.004"),
        ("PGD-inf: R-BIM", "0.005 = 0.005"),
        ("PGD-inf: R-PGD-2", "0.05 > 0.003"),
        ("PGD-2: R-FGSM", "0.013 = 0.013"),
        ("PGD-2: R-BIM", "0.024 = 0.024"),
        ("PGD-2: R-PGD-2", "0.034 > 0.002"),
        ("lowers the robust error", "R-PGD-2: 0.008 < 0.256"),
        ("of eight", "8 of 8"),
    ),
    "thesis-tab6-2": (
        ("steps=5", "not printed: five steps"),
        ("difference of robust accuracy", "no significant impact"),
    ),
}


def with_printed(figure: Figure) -> Figure:
    """The figure with its departures, and what the paper prints filled into comparisons that do not say it."""
    figure = replace(figure, departures=DEPARTURES.get(figure.id, ()))
    lines = PRINTED.get(figure.id, ())
    if not lines:
        return figure

    def expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
        return [_filled(item, lines) for item in figure.expects(rows, scale)]

    return replace(figure, expects=expects)


def _filled(item: Expectation, lines: Sequence[tuple[str, str]]) -> Expectation:
    if item.printed:
        return item
    text = next((text for part, text in lines if part in item.comparison.label), "")
    return replace(item, printed=text)

"""Formulas as MathML, which browsers show by themselves: the pages need no script from elsewhere and work offline."""

from __future__ import annotations

import html
import re


def mathml(tex: str, block: bool = False) -> str:
    """A formula in TeX as MathML, by docutils; where that is not installed, the TeX itself as code.

    An accented letter becomes a group, or its index would land below it as if it were a limit.
    """
    try:
        from docutils.utils.math.latex2mathml import tex2mathml  # noqa: PLC0415 - optional
    except ImportError:  # comes with the documentation extra
        return f"<code>{html.escape(tex)}</code>"
    found = str(tex2mathml(re.sub(r"(\\(?:bar|hat|tilde) ?[A-Za-z])", r"{\1{}}", tex), as_block=block))
    found = found.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")  # HTML knows the element
    if r"\left" not in tex:  # a bar that may stretch ends below its line where it has an index, braces are too tall
        found = re.sub("<mo>([‖{}])</mo>", r'<mo stretchy="false">\1</mo>', found)
    # common fonts draw the bar as nothing, and accents on top of the letter instead of above it
    return found.replace('stretchy="false">\u02c9', ">\u2212").replace('accent="true"', 'accent="false"')

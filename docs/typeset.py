"""Formulas that stand in prose as plain text, such as `lam sum_i ||u_i||^2`, as mathematics that Markdown typesets."""

from __future__ import annotations

import itertools
import re

from markup import escape

from droptics.evidence.formulas import mathml

LETTERS = {"lam": r"\lambda", "eps": r"\varepsilon"}
for _letters in (
    "alpha beta gamma delta eta theta kappa lambda mu nu rho",
    "sigma tau phi psi omega zeta pi Sigma Theta Omega",
):
    LETTERS |= {letter: rf"\{letter}" for letter in _letters.split()}
NAMES = {name: rf"\{name}" for name in ("log", "ln", "max", "min", "exp", "sum", "prod", "sup")}
NAMES |= {name: rf"\operatorname{{{name}}}" for name in ("tr", "diag", "clip", "relu", "kron", "Bin", "sgn")}
NAMES |= {f"{letter}bar": rf"\bar {letter}" for letter in "CFMRWX"}
NAMES |= {
    "Lhat": r"\hat L",
    "Cyx": "C_{yx}",
    "Cyy": "C_{yy}",
    "mdT": "mdT",
    "infinity": r"\infty",
    "sqrt": r"\surd",
    "Pr": r"\Pr",
    "grad": r"\nabla",
}
RELATIONS = {">=": r"\ge", "<=": r"\le", "!=": r"\ne", "->": r"\to"}
WORD = re.compile(r"[A-Za-z]+")
# products that the works write without a sign between their letters
PRODUCTS = {"UV", "UD", "VD", "UQ", "VQ", "UA", "VA", "qW", "Wx", "Mx", "Cyx", "Cyy", "mdT", "mT"}
STRONG = re.compile(r"\|\||[A-Za-z)\]|}]\^|[A-Za-z|)]_[A-Za-z0-9{(*]|sqrt\(")
PLAIN = re.compile(r"[-A-Za-z0-9+*/=().,|<>\[\]{}^_']+")
# names of the library: parts of three letters or more between dots or underscores, the first one no letter of a formula
CODE = re.compile(r"([A-Za-z]{3,}\d?(?:[._][A-Za-z]{3,}\d?)*(?:[._][A-Za-z]{3,}\d?|_))(?:[=(][^\s;]*)?")
TENFOLD = re.compile(r"\b(\d+(?:\.\d+)?)e(-?\d+)\b")
OPERATORS = ("+", "-", "=", "/", "<", ">", *RELATIONS)
END = re.compile(r"[.,;:]+$")
# what comes after these is a number of the print
HEADS = re.compile(
    r"(Lemma|Theorem|Section|Definition|Algorithm|Proposition|Corollary|Remark|Case|Step|Figure|Table|eq\.)s?$"
)


def typeset(text: str) -> str:
    """Text for Markdown in which formulas stand between dollars; what does not read as one is shown as it is."""
    found: list[str] = []
    run: list[str] = []
    before = ""
    for token in text.split():
        ends = END.search(token)
        core = token[: ends.start()] if ends else token
        numbered, before = HEADS.match(before.lstrip("(")), token
        inside = ends and _opened([*run, token]) and ends.group() in ",;"
        if not run and token in OPERATORS and found[-1:] == ["A"]:  # no article
            run.append(found.pop())
        if (inside or not ends) and _kind(core) and not numbered:
            run.append(token)
            continue
        if _kind(core) and not numbered:
            found.append(_formula([*run, core]) + (ends.group() if ends else ""))
            run = []
            continue
        word = _code(core) + token[len(core) :] if _is_code(core) else escape(token)
        found += [*([_formula(run)] if run else []), token if token.count("`") == 2 else word]
        run = []
    return " ".join([*found, *([_formula(run)] if run else [])])


def _kind(token: str) -> str:
    """Whether a token is surely part of a formula, may be one, or is a word."""
    if "`" in token or _is_code(token):
        return ""
    if STRONG.search(token) or token.strip("()[]") in LETTERS or token in RELATIONS:
        return "surely"
    if token in OPERATORS:
        return "operator"
    if token in NAMES:
        return "name"
    words = WORD.findall(token)
    short = all(len(word) == 1 or word in LETTERS or word in NAMES or word in PRODUCTS for word in words)
    if PLAIN.fullmatch(token) and short and token not in ("a", "A", "-"):
        return "maybe"
    return ""


def _is_code(token: str) -> bool:
    named = CODE.fullmatch(token)
    first, *others = re.split("[._]", named.group(1)) if named else ("",)
    return named is not None and (first not in LETTERS | NAMES or len(others) > 1) and "`" not in token


def _code(token: str) -> str:
    """A name as code, with its arguments where all of them stand in this token."""
    name = token if _balanced([token]) else token.partition("(")[0]
    return f"`{name}`{escape(token[len(name) :])}"


def _formula(run: list[str]) -> str:
    """A run of tokens as a formula, or as it is; words on its edges that close no bracket of it stand before it."""
    plain = escape(" ".join(run))
    if not _balanced(run):
        if _balanced(run[1:]):
            plain = f"{escape(run[0])} {_formula(run[1:])}"
        elif _balanced(run[:-1]):
            plain = f"{_formula(run[:-1])} {escape(run[-1])}"
        return plain.strip()
    kinds = [_kind(token) for token in run]
    numbers = re.fullmatch(r"[\d\s.,%()/-]+", " ".join(run))
    half = kinds and (kinds[-1] in ("operator", "name") or kinds[0] == "operator")
    if run == ["I"] or numbers or half or not any(kind in ("surely", "maybe") for kind in kinds):
        return plain
    tex = to_tex(" ".join(run))
    try:
        shown = mathml(tex)
    except (SyntaxError, KeyError, ValueError, IndexError):
        return plain
    return plain if "<code>" in shown or tex.count("{") != tex.count("}") else f"${tex}$"


def _balanced(run: list[str]) -> bool:
    depths = _depths(run)
    return depths[-1] == 0 == min(depths)


def _opened(run: list[str]) -> bool:
    depths = _depths(run)
    return depths[-1] > 0 == min(depths)


def _depths(run: list[str]) -> list[int]:
    """How many brackets are open after every letter, from none before the first."""
    steps = ((letter in "([") - (letter in ")]") for letter in " ".join(run))
    return list(itertools.accumulate(steps, initial=0))


def to_tex(text: str) -> str:
    """A formula in plain text as TeX."""
    text = re.sub(r"(?<![_^])\{([^{}]*)\}", r"\\{\1\\}", text)  # braces that are shown
    text = TENFOLD.sub(lambda m: f"{m.group(1)} \\cdot ".removeprefix("1 \\cdot ") + f"10^({m.group(2)})", text)
    text = re.sub(r"sqrt (\w+)", r"sqrt(\1)", text)
    for opening in ("sqrt(", "^(", "_("):
        text = _grouped(text, opening)
    text = re.sub(r"\bl([12])\b", r"\\ell_\1", text)
    text = re.sub(r"\b([A-Za-z])(\d)\b", r"\1_\2", text)
    text = re.sub(r"\^(-?(?:[13]/[24]|\d+(?:\.\d+)?)|-?[A-Za-z]+'?)", lambda m: f"^{{{_power(m.group(1))}}}", text)
    text = re.sub(r"_([A-Za-z0-9]+)", lambda m: f"_{{{_index(m.group(1))}}}", text)
    for plain, tex in RELATIONS.items():
        text = text.replace(plain, f" {tex} ")
    text = re.sub(r"(?<=[\w)}\]]) o (?=[\w(\\])", r" \\circ ", text)
    text = re.sub(r"(?<!_)\*(?![\w(])", "^*", text)
    text = re.sub(r"(?<![_^])\*", r"\\cdot ", text)
    text = text.replace("||", r"\Vert ").replace("|", r"\vert ")
    return re.sub(r"\s+", " ", re.sub(r"(?<!mathrm{)(?<![\\A-Za-z])[A-Za-z]+", _named, text)).strip()


def _power(text: str) -> str:
    return {"T": r"\top", "perp": r"\perp"}.get(text, text)


def _index(text: str) -> str:
    return rf"\mathrm{{{text}}}" if text in ("tr", "atk", "inf") else text


def _named(match: re.Match[str]) -> str:
    word = match.group()
    if word in LETTERS or word in NAMES:
        return (LETTERS | NAMES)[word] + " "
    return word if len(word) <= 2 else rf"\mathrm{{{word}}}"


def _grouped(text: str, opening: str) -> str:
    """What stands in brackets after a root, a power or an index, by the bracket that closes it, as a group of TeX."""
    while (start := text.find(opening)) >= 0:
        depth = 0
        for place in range(start + len(opening) - 1, len(text)):
            depth += (text[place] == "(") - (text[place] == ")")
            if not depth:
                break
        else:
            return text
        sign = "\\sqrt" if opening == "sqrt(" else opening[0]
        text = f"{text[:start]}{sign}{{{text[start + len(opening) : place]}}}{text[place + 1 :]}"
    return text

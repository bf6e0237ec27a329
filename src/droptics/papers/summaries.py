"""The works in short: a page for the readers of each, from the registry of claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from droptics.evidence.claims import REFUTED, Claim

INTRODUCTION = """From the registry of claims; every line is one that `droptics verify` runs. Theorems, what fails and
what is new, proved and short are said in words, the rest is named; a name leads to the statement in full, to what is
wrong with it and to its check."""
SHORT = 70  # words of what is new that a page says


def summary_pages(claims: Sequence[Claim], titles: Mapping[str, str]) -> dict[str, str]:
    """By work the page for its readers: what stands, what needs a condition, what is wrong, and what is new.

    What an earlier work prints too is named and not said again; so are theorems of an appendix, which are tools.
    """
    pages, before = {}, list[str]()
    for paper, title in titles.items():
        mine = [claim for claim in claims if claim.paper == paper and not claim.id.endswith("-corrected")]
        earlier = {claim.check for claim in claims if claim.paper in before and claim.check}
        own = [claim for claim in mine if claim.check not in earlier]
        stands = [claim for claim in own if claim.verdict == "holds"]
        theorems = [claim for claim in stands if "-thm" in claim.id and _tells(claim)]
        slips = [claim for claim in own if claim.verdict in REFUTED and claim.verdict != "false"]
        new = [claim for claim in claims if claim.paper == "droptics" and _first_named(claim, titles) == paper]
        proved = [claim for claim in new if _is_proved(claim) and len(claim.statement.split()) <= SHORT]
        groups: dict[str, tuple[Sequence[Claim], Sequence[Claim]]] = {
            "Stands": (theorems, [claim for claim in stands if claim not in theorems]),
            "Stands under a condition": ([claim for claim in own if claim.verdict == "holds only if"], ()),
            "True, and says nothing at realistic sizes": ((), [claim for claim in own if claim.verdict == "vacuous"]),
            "False": ([claim for claim in own if claim.verdict == "false"], ()),
            "Slips of print or proof, constants, remarks about plots": ((), slips),
            "Misprints": ((), [claim for claim in own if claim.verdict == "not checked"]),
            "Printed in an earlier work, too": ((), [claim for claim in mine if claim not in own]),
            "New, on this work": (proved, [claim for claim in new if claim not in proved]),
        }
        before.append(paper)
        lines = [f"# {title}", "", INTRODUCTION]
        for name, (said, named) in groups.items():
            if said or named:
                lines += ["", f"## {name} ({len(said) + len(named)})"]
            if said:
                lines += ["", *(f"- {_link(claim)}: {claim.statement}{_aside(claim)}" for claim in said)]
            if named:
                lines += ["", _by_chapter(named)]
        pages[paper] = "\n".join(lines) + "\n"
    return pages


def _tells(claim: Claim) -> bool:
    """Whether a theorem is what a work is about: no step of a proof, no tool of an appendix."""
    chapter, place = _place(claim)
    return "proof" not in place and chapter != "appendix"


def _is_proved(claim: Claim) -> bool:
    """Whether the note of a result of ours says that it is proved, in part or as a sketch."""
    note = claim.note.lower()
    return "proof" in note or ("proved" in note and "not proved" not in note)


def _first_named(claim: Claim, papers: Mapping[str, str]) -> str:
    """The work that a statement of ours is about, the first if there are several."""
    places = {paper: claim.source.find(paper) for paper in papers if paper in claim.source}
    return min(places, key=places.__getitem__, default="")


def _place(claim: Claim) -> tuple[str, str]:
    """The chapter of a statement, if its place names one, and the place in it; the own name of one of ours."""
    if claim.paper == "droptics":
        return "", claim.id.removeprefix("droptics-").replace("-", " ")
    place = claim.source.partition("), ")[2] or claim.source
    chapter, _, rest = place.partition(", ")
    return (chapter, rest) if rest and chapter.startswith(("chapter", "appendix")) else ("", place)


def _link(claim: Claim) -> str:
    """The place of a statement as a link to the table of claims."""
    return f'<a href="claims.html#{claim.id}">{", ".join(filter(None, _place(claim)))}</a>'


def _by_chapter(claims: Sequence[Claim]) -> str:
    """Links, a line for each chapter; appendices and what names none come last."""
    chapters: dict[str, list[str]] = {}
    for claim in claims:
        chapter, place = _place(claim)
        chapters.setdefault(chapter, []).append(f'<a href="claims.html#{claim.id}">{place}</a>')
    order = sorted(chapters, key=lambda name: (not name, not name.startswith("chapter"), name))
    return "\\\n".join(f"{_heading(name)}{'; '.join(chapters[name])}" for name in order)


def _heading(chapter: str) -> str:
    return f"{chapter[0].upper()}{chapter[1:]}: " if chapter else ""


def _aside(claim: Claim) -> str:
    """What is wrong with a statement, or the condition that it needs."""
    if claim.erratum:
        return f" *{claim.erratum.wrong}*"
    if claim.verdict != "holds only if":
        return ""
    first, *others = claim.note.split(". ")
    condition = ". ".join([first, *(other for other in others if "only if" in other.lower())])
    return f" *{condition.removesuffix('.')}.*"

"""Which statement rests on which: names that exist, no circle, and what leans on a statement that fails."""

from droptics.evidence.claims import REFUTED
from droptics.papers import claims
from droptics.papers.rests import RESTS, beneath, unsettled


def test_every_name_is_a_claim_and_none_rests_on_itself():
    known = {claim.id: claim for claim in claims()}
    for name, others in RESTS.items():
        assert {name, *others} <= set(known)
        assert name not in beneath(name)


def test_the_thesis_prints_the_proofs_of_the_paper_again():
    again = {claim.same_as: claim.id for claim in claims() if claim.same_as and claim.paper == "thesis"}
    for name, others in RESTS.items():
        if name in again and again[name] in RESTS:
            wanted = {again[other] for other in others if other in again}
            assert wanted <= set(RESTS[again[name]]) | {again["mianjy2018-lemA.2"]}, name


def test_statements_that_lean_on_one_that_fails_are_named():
    known = {claim.id: claim for claim in claims()}
    found = unsettled(claims())
    assert found["helmbold2017-lem16"] == ["helmbold2017-lem15"]
    assert all(known[other].verdict in REFUTED for others in found.values() for other in others)
    assert not any(known[name].verdict in REFUTED for name in found)
    # of Lemma 10 it takes the first part, which holds; the convex envelope is enough there, without its formula
    assert not {"thesis-cor2", "thesis-cor3", "pal2020-thm2.6", "pal2020-cor2.8"} & set(found)

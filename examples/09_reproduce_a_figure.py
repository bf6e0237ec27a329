"""Reproduce a figure: cells are computed once, the table, the picture and the verdicts are left in a folder."""

import sys

from droptics import reproduce, verify

out = sys.argv[1] if len(sys.argv) > 1 else "droptics-out"
(artifact,) = reproduce("mianjy2018-fig1", scale="smoke", out=out)
print("table, picture and manifest:", artifact.folder)
for expectation in artifact.expectations:
    print("reproduced:" if expectation.reproduced else "not reproduced:", expectation.comparison)
for result in verify(["mianjy2018-lemA.1", "pal2020-thm4.1"]):
    print(f"{result.claim.id}: {result.verdict}. {result.claim.statement}")

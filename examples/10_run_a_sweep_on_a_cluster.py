"""Run a sweep on a cluster: the same cells in this process, in worker processes, or on a Dask cluster by address.

    python examples/10_run_a_sweep_on_a_cluster.py                              # two worker processes
    python examples/10_run_a_sweep_on_a_cluster.py out dask://127.0.0.1:8786    # a cluster; needs droptics[dask]

A cluster on one machine, for a try: `dask scheduler` in one terminal, `dask worker tcp://127.0.0.1:8786` in another.
"""

import sys

from droptics import reproduce

if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else "droptics-out"
    engine = sys.argv[2] if len(sys.argv) > 2 else "processes:2"
    for artifact in reproduce(["mianjy2018-fig1", "mianjy2018-fig2"], scale="smoke", out=out, run_on=engine):
        print(artifact.figure.id, f"{artifact.computed} cells computed, {artifact.resumed} found on disk")

"""A sweep on a SLURM cluster: Dask's own scheduler runs here, its workers run as SLURM jobs.

Run it on a node that the compute nodes can reach, such as the login node, inside tmux or as a small job of its own:

    python examples/slurm.py SPEC.yaml results/NAME

Names of partitions, memory and time limits below are examples: put in those of your cluster. Kill it at any time and
start it again: cells that are done are not run again, and jobs that SLURM kills only lose the cells under way.

Needs the extra `cluster` on all nodes, in the same environment: `pip install -e '.[cluster]'` in a clone.
"""

import sys

from dask_jobqueue import SLURMCluster
from distributed import Client

from swiftrl_core.sweeps import spec
from swiftrl_core.sweeps.executors import Dask
from swiftrl_core.sweeps.plan import execute, make_plan, require_all
from swiftrl_core.sweeps.store import Store

JOBS = 20


def main(specification: str, folder: str) -> None:
    """Run the cells of a specification on `JOBS` jobs."""
    store = Store(folder)
    plan = make_plan(spec.read(specification).cells, store)
    print(plan)
    cluster = SLURMCluster(
        queue="standard",
        walltime="04:00:00",
        cores=8,  # processors of a job
        processes=8,  # one worker for each
        memory="16GB",
        # A host with a GPU or with UPMEM DIMMs runs one cell of that kind at a time: one worker a job, and
        # processes=1, worker_extra_args=["--resources", "gpu=1"] (or "pim=1").
    )
    with cluster, Client(cluster) as client:
        cluster.scale(
            jobs=JOBS
        )  # adapt() starts and stops jobs as it likes; a fixed number is easier to live with
        client.wait_for_workers(1)  # as long as the queue takes
        summary = execute(plan, store, Dask(client=client))
    require_all(summary, store)
    print(f"{summary.table}: {summary.done} rows")


if __name__ == "__main__":
    main(*sys.argv[1:])

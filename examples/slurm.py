"""A sweep on a SLURM cluster: Dask's own scheduler runs here, its workers run as SLURM jobs.

Run it on a node that the compute nodes can reach, such as the login node, inside tmux or as a small job:

    python examples/slurm.py SPEC.yaml results/NAME

Partition, memory and time limit below are examples: replace them by those of your cluster. You can kill the script at
any time and start it again: finished runs are not repeated, and a job that SLURM kills loses only the runs in progress.

All nodes need the extra `cluster` in the same environment: `pip install -e '.[cluster]'` in a clone.
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
    """Execute the runs of a specification in `JOBS` SLURM jobs."""
    store = Store(folder)
    plan = make_plan(spec.read(specification).runs, store)
    print(plan)
    cluster = SLURMCluster(
        queue="standard",
        walltime="04:00:00",
        cores=8,  # processors of a job
        processes=8,  # one worker for each
        memory="16GB",
        # A host with a GPU or with UPMEM DIMMs executes one run of that kind at a time: one worker a job, and
        # processes=1, worker_extra_args=["--resources", "gpu=1"] (or "pim=1").
    )
    with cluster, Client(cluster) as client:
        cluster.scale(jobs=JOBS)  # a fixed number: adapt() would start and stop jobs all the time
        client.wait_for_workers(1)  # as long as the queue takes
        summary = execute(plan, store, Dask(client=client))
    require_all(summary, store)
    print(f"{summary.table}: {summary.done} rows")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The executor for a cluster: the workers of a Dask scheduler."""

import contextlib
import logging
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

from swiftrl_core.sweeps.executors.executor import Outcome, Turns, attempt
from swiftrl_core.sweeps.job import Job
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.toolchain import available_threads

CONNECT_SECONDS = 3
"""How long to look for a scheduler and its workers."""
POLL_SECONDS = 0.005
LOOK_SECONDS = 2.0
"""How often to look for workers that came or went."""


class Dask:
    """Runs jobs on the workers of a Dask cluster, by default one on this machine.

    Runs of the `gpu` backends need workers started with `--resources gpu=1`. Runs of `pim` go to workers with `pim=1`
    if the cluster has any; those that require hardware need one.

    Parameters
    ----------
    address : str, optional
        Of the scheduler, such as `tcp://node1:8786`.
    workers : int, optional
        Processes of the cluster on this machine; not with an address.
    client : distributed.Client, optional
        One that is connected already, as to a SLURM cluster; it is left open.
    """

    name = "dask"

    def __init__(self, address: str | None = None, workers: int | None = None, client: Any = None) -> None:
        if workers is not None and (address or client):
            raise SwiftRLError("--workers does not apply to a cluster that runs already: drop it")
        self._address = address
        self._local_workers = workers or available_threads()
        self._client = client
        self._open = contextlib.ExitStack()
        self._offers: Counter[str] = Counter()
        self._on_a_host = 0
        self._looked = 0.0
        self.workers = 0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opened:
            opened.enter_context(_quiet())
            if self._client is None:
                self._client = self._connect(opened)
            _wait_for_workers(self._client)
            self._look()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check(self, jobs: Sequence[Job]) -> None:
        """See `Executor`."""
        for device in {_must_have(job) for job in jobs} - {None} - self._offers.keys():
            raise SwiftRLError(
                f"no worker of the cluster offers {device}, which some runs need: start workers on such hosts with "
                f"`dask worker ADDRESS --resources {device}=1 --nthreads 1`, or leave these runs out"
            )

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """See `Executor`."""
        import distributed

        turns = Turns(jobs, self._resource)
        running: dict[str, Job] = {}
        completed = distributed.as_completed(loop=self._client.loop)
        self._submit(turns, running, completed)
        while running:
            outcome = None
            if completed.has_ready():
                future = next(completed)
                outcome = _outcome(future, running.pop(future.key))
            else:
                time.sleep(POLL_SECONDS)
            if (
                time.monotonic() - self._looked > LOOK_SECONDS
            ):  # a cluster's queue may start workers at any time
                self._look()
            self._submit(turns, running, completed)
            if outcome:
                yield outcome

    def _submit(self, turns: "Turns", running: dict[str, Job], completed: Any) -> None:
        """Keep one job running and one waiting at every worker and every device, so that none is idle."""
        counts = Counter(map(self._resource, running.values()))
        while counts[None] < 2 * self.workers + 2:
            job = turns.next(
                [device for device, number in self._offers.items() if counts[device] >= 2 * number]
            )
            if job is None:
                return
            device = self._resource(job)
            resources = device and {device: 1}
            future = self._client.submit(attempt, job, self._on_a_host, pure=False, resources=resources)
            counts[device] += 1
            running[future.key] = job
            completed.add(future)

    def _resource(self, job: Job) -> str | None:
        """Return the resource that a job is submitted with."""
        device = _must_have(job) or job.device
        return device if device in self._offers else None

    def _look(self) -> None:
        """Count the workers and what they offer."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        hosts: Counter[str] = Counter()
        offers: Counter[str] = Counter()
        for worker in workers:
            hosts[worker["host"]] += worker["nthreads"]
            offers.update(worker["resources"].keys())
        self.workers = hosts.total()
        self._on_a_host = max(hosts.values(), default=0)
        self._offers |= (
            offers  # what was there may come back, and jobs that wait for it must not run elsewhere
        )
        self._looked = time.monotonic()

    def _connect(self, opened: contextlib.ExitStack) -> Any:
        import distributed

        address = self._address
        if address is None:
            address = opened.enter_context(
                distributed.LocalCluster(
                    n_workers=self._local_workers,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs="ERROR",
                )
            )
        try:
            return opened.enter_context(
                distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
            )
        except (OSError, ValueError) as error:
            raise SwiftRLError(
                f"no Dask scheduler answers at {address} ({type(error).__name__}): check the address, or start one "
                "with `dask scheduler`"
            ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the client's tracebacks about lost connections off the terminal; the sweep's error is one sentence."""
    try:
        import distributed  # noqa: F401, sets the level of its loggers
    except ImportError as error:
        raise SwiftRLError(
            f"the executor dask needs the package distributed ({error}): pip install 'swiftrl[cluster]'"
        ) from error
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _must_have(job: Job) -> str | None:
    """Return the device that the job cannot run without, or None: only `pim` has a simulator."""
    return job.device if job.hardware or job.device == "gpu" else None


def _wait_for_workers(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError as error:
        raise SwiftRLError(
            f"the Dask scheduler at {client.scheduler.address} has no workers: start some, then run this again"
        ) from error


def _outcome(future: Any, job: Job) -> Outcome:
    """Return the outcome of a task; a worker that died too often is the job's failure, a lost scheduler is not."""
    import distributed

    try:
        return future.result()
    except distributed.scheduler.KilledWorker as error:
        return Outcome(job, None, f"its workers kept dying: {error}", traceback.format_exc())
    except (distributed.CancelledError, OSError) as error:  # a job's own errors are outcomes, see `attempt`
        raise SwiftRLError(
            "the connection to the Dask scheduler is lost; finished runs are kept: run the same command again"
        ) from error
    finally:
        future.release()

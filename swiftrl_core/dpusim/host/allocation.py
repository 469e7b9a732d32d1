"""An allocation of DPUs, shared by all sets over them: machines, programs, queued work, simulated seconds."""

import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from swiftrl_core.dpusim.program.compile import Chip, chip_named
from swiftrl_core.dpusim.program.elf import Program
from swiftrl_core.dpusim.program.symbols import DpuError
from swiftrl_core.dpusim.timing import DmaTiming, HardwareProfile

CHIPS_PER_RANK = 8
CLOCK = "CLOCKS_PER_SEC"

# Numbers of the vendor's library (dpu_thread_job_type, dpu_error_t), for the texts of asynchronous errors.
_MEMORIES = ("wram", "iram", "mram")
JOBS = (
    *("launch_rank", "launch_dpu", "synchronization"),
    *(f"copy_{memory}_{way}" for way in ("to_matrix", "from_matrix", "to_rank") for memory in _MEMORIES),
    "callback",
)
ERROR_NUMBERS = {"invalid wram access": 8, "invalid mram access": 10, "dpu is in fault": 21}
OTHER_ERROR = 1


def _asynchronous(job: str, text: str) -> str:
    """Return the vendor's text of an error in queued work; the rest of `text` follows the vendor's words."""
    reason = next((words for words in ERROR_NUMBERS if text.startswith(words)), text)
    number = JOBS.index(job) << 16 | ERROR_NUMBERS.get(reason, OTHER_ERROR)
    return f"asynchronous operation error ({job}): {reason} (0x{number:x}){text.removeprefix(reason)}"


def balanced_ranks(n_dpus: int, dpus_per_rank: int = 64) -> list[list[int]]:
    """Return which DPUs of which ranks an allocation takes.

    Whole ranks are taken until they hold `n_dpus`; then the surplus is disabled in passes. A pass goes to the
    fullest rank (the last of them) and disables one DPU of each of its 8 control interfaces, last interface
    first. That reproduces the counts seen with the vendor's library: 65 -> 33, 32; 100 -> 52, 48;
    129 -> 48, 41, 40.

    Parameters
    ----------
    n_dpus : int
        DPUs asked for, at least 1.
    dpus_per_rank : int
        DPUs of a whole rank, a multiple of 8.

    Returns
    -------
    list of list of int
        For each rank, the ids (interface << 8 | DPU) of its enabled DPUs in the binding's order: all DPUs of
        interface 0, then of interface 1, ...
    """
    members = dpus_per_rank // CHIPS_PER_RANK
    ranks = [[members] * CHIPS_PER_RANK for _ in range(-(-n_dpus // dpus_per_rank))]
    surplus = len(ranks) * dpus_per_rank - n_dpus
    while surplus:
        fullest = max(reversed(ranks), key=sum)
        for interface in reversed(range(CHIPS_PER_RANK)):
            if surplus and fullest[interface]:
                fullest[interface] -= 1
                surplus -= 1
    return [
        [interface << 8 | member for interface, enabled in enumerate(rank) for member in range(enabled)]
        for rank in ranks
    ]


@dataclass
class Ledger:
    """Simulated seconds of one allocation since it was made, by kind, and what they were spent on.

    Parameters
    ----------
    hardware : str
        Name of the hardware profile that turned cycles and bytes into seconds.
    to_dpu_s, from_dpu_s : float
        Host transfers.
    kernel_s : float
        Launches: latency, then the slowest DPU.
    launches : int
        Number of `exec`.
    instructions : int
        DPU instructions issued, all tasklets of all DPUs.
    to_dpu_bytes, from_dpu_bytes : int
        Bytes moved, all DPUs.
    """

    hardware: str
    to_dpu_s: float = 0.0
    from_dpu_s: float = 0.0
    kernel_s: float = 0.0
    launches: int = 0
    instructions: int = 0
    to_dpu_bytes: int = 0
    from_dpu_bytes: int = 0

    def snapshot(self) -> "Ledger":
        """Return a copy, to subtract from later values."""
        return dataclasses.replace(self)


@dataclass
class Allocation:
    """The DPUs of a top set, of its ranks and of its single-DPU sets.

    Parameters
    ----------
    hardware : HardwareProfile
        Server the DPUs belong to.
    ids : list of int
        rank << 16 | interface << 8 | DPU, for each DPU in the binding's order.
    threads : int or None
        Host threads that run DPUs, None for as many as there are cores.
    mode : {"fast", "exact"}
        How tasklets share the pipeline: by a replay of what they share, or interleaved cycle by cycle.
    instruction_budget : int
        Modelled instructions of a DPU after which a launch counts as hung.
    sanitize : bool
        Whether launches look for bugs.

    Attributes
    ----------
    machines, programs, last_run : list
        Of each DPU, None before the first load or launch: its machine, its program, its `RunStats`.
    ledger : Ledger
        Simulated seconds so far.
    freed : bool
        Whether the DPUs were given back.
    """

    hardware: HardwareProfile
    ids: list[int]
    threads: int | None
    mode: str
    instruction_budget: int
    sanitize: bool
    machines: list = field(init=False)
    programs: list[Program | None] = field(init=False)
    last_run: list = field(init=False)
    ledger: Ledger = field(init=False)
    freed: bool = field(init=False, default=False)
    _queue: deque[tuple[str, Callable[[], object]]] = field(init=False, default_factory=deque)
    _broken: DpuError | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.machines = [None] * len(self.ids)
        self.programs = [None] * len(self.ids)
        self.last_run = [None] * len(self.ids)
        self.ledger = Ledger(self.hardware.name)

    def require_alive(self) -> None:
        """Refuse any use after `free`; the vendor's library crashes."""
        if self.freed:
            raise DpuError("invalid action for this dpu set: its DPUs were freed; allocate a new DpuSet")

    def release(self) -> None:
        """Give the memory of the DPUs back."""
        self.require_alive()
        self.freed = True
        self._queue.clear()
        self.machines = [None] * len(self.ids)

    def load(
        self, indices: range, program: Program, new_machine: Callable[[Program, Chip, DmaTiming], object]
    ) -> None:
        """Load a program into DPUs; those that had none become machines now.

        A later load rewrites code and initialised data and keeps the rest of the memory.
        """
        chip = chip_named(self.hardware.chip)
        if program.nr_tasklets > chip.tasklets:
            raise DpuError(
                "dpu program uses more tasklets than the hardware has threads: "
                f"{program.nr_tasklets} tasklets, a {chip.name} has {chip.tasklets} threads"
            )
        if program.chip != chip:
            raise DpuError(
                f"internal error: {program.path.name} is built for {program.chip.name} chips, {self.hardware.name} "
                f"has {chip.name}; compile it with chip={chip.name!r}"
            )
        for index in indices:
            if self.machines[index] is None:
                self.machines[index] = new_machine(program, chip, self.hardware.dma)
            else:
                self.machines[index].load(program)
            self.programs[index] = program
        self._tell_clock(indices, program)

    def _tell_clock(self, indices: range, program: Program) -> None:
        """Write the DPU's clock where kernels find it, as the vendor's loader does."""
        if CLOCK in program.symbols:
            address, size = program.symbols[CLOCK]
            value = round(self.hardware.clock_hz).to_bytes(size, "little")
            for index in indices:
                self.machines[index].write_wram(address, value)

    def enqueue(self, job: str, work: Callable[[], None]) -> None:
        """Keep work for the next `drain`."""
        self._queue.append((job, work))

    def drain_alive(self) -> None:
        """Refuse a freed set, then do the queued work."""
        self.require_alive()
        self.drain()

    def drain(self) -> None:
        """Do the queued work in order; the first failure stays and is raised again each time.

        Raises
        ------
        DpuError
            "asynchronous operation error (<job>): <reason> (0x<job << 16 | error>)", then what more is known.
        """
        while self._queue and self._broken is None:
            job, work = self._queue.popleft()
            try:
                work()
            except DpuError as error:
                self._queue.clear()
                self._broken = DpuError(_asynchronous(job, str(error)))
                raise self._broken from error
        if self._broken is not None:
            raise DpuError(str(self._broken))

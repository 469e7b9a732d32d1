"""Short loops over blocks in MRAM against cycles measured on a second server.

Nothing is tuned on what judges: that server's DMA timing is fitted to its transfers by 16 tasklets, a benchmark of
its own (`published.TRANSFER_CYCLES`). The same loops with PrIM's DMA timing, the default, are shown for comparison.

Both sides are differences between two numbers of blocks, so launch, start and end of a kernel fall out.
"""

import numpy as np
import pandas as pd

from swiftrl_core.dpusim.timing import DmaTiming
from swiftrl_core.dpusim.validation import published
from swiftrl_core.dpusim.validation.harness import KERNELS, run_kernel
from swiftrl_core.dpusim.validation.report import Bar, Section, mean_error, percent_error

BLOCKS = 16  # simulated of each tasklet, and twice as many
BINS, LOWEST, DEPTH = 256, 256, 12  # of the histogram: values from `LOWEST` up to 2**DEPTH, as measured


def second_server_dma() -> DmaTiming:
    """Return the DMA timing that lies closest to the second server's transfers, in cycles squared."""
    terms, cycles = [], []
    for way, measured in published.TRANSFER_CYCLES.items():
        for size, value in measured.items():
            terms.append((way == "read", way == "write", size))
            cycles.append(value)
    return DmaTiming(*np.linalg.lstsq(np.array(terms, float), np.array(cycles), rcond=None)[0].tolist())


def loop_cycles(loop: published.MeasuredLoop, dma: DmaTiming | None = None, mode: str = "fast") -> float:
    """Simulate a loop; return its cycles per element of the DPU."""
    few, many = (_run_loop(loop, blocks, dma, mode) for blocks in (BLOCKS, 2 * BLOCKS))
    return (many - few) / (BLOCKS * loop.block * loop.tasklets)


def _run_loop(loop: published.MeasuredLoop, blocks: int, dma: DmaTiming | None, mode: str) -> int:
    elements = loop.tasklets * blocks * loop.block
    vector = (LOWEST + np.arange(elements) % (2**DEPTH - LOWEST)).astype(loop.element.removesuffix("_t"))
    chosen = {f"LOOP_{name}": int(name == loop.name) for name in ("ADD", "SUM", "COUNT")}
    return run_kernel(
        KERNELS / "loops.c",
        defines={"T": loop.element, **chosen},
        tasklets=loop.tasklets,
        heap=np.concatenate([vector, vector]),
        variables={
            name: np.uint32(value)
            for name, value in (("blocks", blocks), ("block", loop.block), ("bins", BINS))
        },
        mode=mode,
        dma=dma,
    ).stats.cycles


def loops() -> Section:
    """Compare the loops with what the second server takes for them."""
    dma = second_server_dma()
    table = pd.DataFrame([_row(loop, dma) for loop in published.LOOPS])
    return Section(
        "loops",
        "Short loops against a second UPMEM server, cycles per element",
        table,
        (
            Bar("mean over the loops", mean_error(table["error_percent"]), 5.0, detail=_by_name(table)),
            Bar("worst loop", table["error_percent"].abs().max(), 20.0),
        ),
        (
            f"That server's DMA, from other measurements: {dma.read_fixed:.0f} (write {dma.write_fixed:.0f}) + "
            f"{dma.cycles_per_byte:.2f} n cycles for n bytes. With PrIM's fit, the default, small transfers by many "
            "tasklets come out too slow: last column.",
        ),
    )


def _row(loop: published.MeasuredLoop, dma: DmaTiming) -> dict[str, object]:
    predicted, with_prim = loop_cycles(loop, dma), loop_cycles(loop)
    return {
        "loop": loop.name,
        "type": loop.element,
        "tasklets": loop.tasklets,
        "transfer_bytes": loop.transfer_bytes,
        "predicted_cycles": predicted,
        "measured_cycles": loop.cycles,
        "error_percent": percent_error(predicted, loop.cycles),
        "error_with_prim_dma_percent": percent_error(with_prim, loop.cycles),
    }


def _by_name(table: pd.DataFrame) -> str:
    means = table.groupby(["loop", "type"], sort=False)["error_percent"].agg(mean_error)
    return ", ".join(f"{loop} {element} {value:.1f}" for (loop, element), value in means.items())

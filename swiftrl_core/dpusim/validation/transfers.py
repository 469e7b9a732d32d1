"""Host transfers at the points that PrIM published."""

import pandas as pd

from swiftrl_core.dpusim.timing import HARDWARE_PROFILES, transfer_seconds
from swiftrl_core.dpusim.validation import published
from swiftrl_core.dpusim.validation.report import Bar, Section, percent_error


def transfers() -> Section:
    """Compare the bandwidths of one whole rank with PrIM's."""
    profile = HARDWARE_PROFILES["upmem-2556"]
    n_dpus, size = profile.dpus_per_rank, published.HOST_BYTES_PER_DPU
    rows = []
    for (direction, kind), rate in published.HOST_GB_S.items():
        seconds = transfer_seconds(profile, direction, n_dpus, size, kind)
        predicted = n_dpus * size / seconds / 1e9
        rows.append((direction, kind, n_dpus, predicted, rate, percent_error(predicted, rate)))
    columns = ["direction", "kind", "dpus", "predicted_gb_s", "published_gb_s", "error_percent"]
    table = pd.DataFrame(rows, columns=columns)
    return Section(
        "transfers",
        f"Host transfers, {n_dpus} DPUs of one rank, {size >> 20} MiB each (PrIM, figure 10), GB/s",
        table,
        (Bar("worst end point", table["error_percent"].abs().max(), 2.0),),
        (
            "The profile is made from these points: the bar checks formula and latencies. Other servers differ 2-3x; "
            "beyond 8 ranks everything is extrapolated.",
        ),
    )

"""Figures as pure functions of a table: `fig_xxx(DataFrame) -> Figure`, ready for a paper's column.

Widths are those of a two-column page, text is 8 pt, fonts are embedded as TrueType, colours are seaborn's
colour-blind palette. A time is drawn with its evidence: filled marks are measured, hollow ones are not, and the words
`measured`, `simulated` and `modelled` stand in the figure. What `fig_xxx` draws of a table of runs, `table_xxx` returns
as numbers.
"""

from swiftrl_core.experiments.aggregation import (
    fig_fewer_updates,
    fig_recipes_by_cores,
    fig_what_it_costs,
    table_fewer_updates,
    table_needed,
    table_recipes,
    table_recipes_by_cores,
    table_what_it_costs,
)
from swiftrl_core.experiments.backends import BACKENDS, fig_backends, table_backends
from swiftrl_core.experiments.datasets import (
    fig_chunk_rewards,
    fig_coverage,
    fig_visits,
    table_chunk_rewards,
    table_coverage,
)
from swiftrl_core.experiments.kernel_study import fig_kernel_study
from swiftrl_core.experiments.learning_quality import (
    fig_learning_quality,
    fig_number_formats,
    fig_precision,
    fig_table_error,
    table_learning_quality,
    table_number_formats,
    table_precision,
    table_table_error,
)
from swiftrl_core.experiments.multi_agent import (
    fig_agents_per_dpu,
    fig_population,
    table_agents_per_dpu,
    table_population,
)
from swiftrl_core.experiments.quickstart import (
    ARROWS,
    PARTS,
    TILES,
    fig_breakdown,
    fig_learning_curve,
    fig_policy,
)
from swiftrl_core.experiments.roofline import fig_roofline, table_roofline
from swiftrl_core.experiments.strong_scaling import (
    fig_scaling_breakdown,
    fig_strong_scaling,
    table_scaling_breakdown,
    table_strong_scaling,
)
from swiftrl_core.experiments.synchronisation import fig_synchronisation, table_synchronisation
from swiftrl_core.experiments.time_to_optimum import (
    fig_data_size,
    fig_time_to_optimum,
    table_data_size,
    table_time_to_optimum,
    table_winners,
)
from swiftrl_core.plotting.style import COLUMN_INCHES, PAGE_INCHES, STYLE, save

__all__ = [
    "ARROWS",
    "BACKENDS",
    "COLUMN_INCHES",
    "PAGE_INCHES",
    "PARTS",
    "STYLE",
    "TILES",
    "fig_agents_per_dpu",
    "fig_backends",
    "fig_breakdown",
    "fig_chunk_rewards",
    "fig_coverage",
    "fig_data_size",
    "fig_fewer_updates",
    "fig_kernel_study",
    "fig_learning_curve",
    "fig_learning_quality",
    "fig_number_formats",
    "fig_policy",
    "fig_population",
    "fig_precision",
    "fig_recipes_by_cores",
    "fig_roofline",
    "fig_scaling_breakdown",
    "fig_strong_scaling",
    "fig_synchronisation",
    "fig_table_error",
    "fig_time_to_optimum",
    "fig_visits",
    "fig_what_it_costs",
    "save",
    "table_agents_per_dpu",
    "table_backends",
    "table_chunk_rewards",
    "table_coverage",
    "table_data_size",
    "table_fewer_updates",
    "table_learning_quality",
    "table_needed",
    "table_number_formats",
    "table_population",
    "table_precision",
    "table_recipes",
    "table_recipes_by_cores",
    "table_roofline",
    "table_scaling_breakdown",
    "table_strong_scaling",
    "table_synchronisation",
    "table_table_error",
    "table_time_to_optimum",
    "table_what_it_costs",
    "table_winners",
]

"""What is learned, and how: the learner, its number formats, and the layout that host and kernels share."""

from swiftrl_core.learner.learner import (
    BEYOND_THE_PAPER,
    CHOICES,
    LARGEST_COEFFICIENT_ERROR,
    MOST_TRANSITIONS,
    Aggregation,
    Algorithm,
    AlphaSchedule,
    Bootstrap,
    Learner,
    NumberFormat,
    Sampling,
    Update,
    random_states,
)

__all__ = [
    "BEYOND_THE_PAPER",
    "CHOICES",
    "LARGEST_COEFFICIENT_ERROR",
    "MOST_TRANSITIONS",
    "Aggregation",
    "Algorithm",
    "AlphaSchedule",
    "Bootstrap",
    "Learner",
    "NumberFormat",
    "Sampling",
    "Update",
    "random_states",
]

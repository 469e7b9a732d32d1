"""Learners, their number formats, and the memory layout shared by host and kernels."""

from swiftrl_core.learner.generators import random_states
from swiftrl_core.learner.learner import (
    BEYOND_THE_PAPER,
    CHOICES,
    LARGEST_COEFFICIENT_ERROR,
    MOST_TRANSITIONS,
    SOMETIMES_IGNORED,
    Aggregation,
    Algorithm,
    AlphaSchedule,
    Bootstrap,
    Learner,
    NumberFormat,
    Sampling,
    Update,
)

__all__ = [
    "BEYOND_THE_PAPER", "CHOICES", "LARGEST_COEFFICIENT_ERROR", "MOST_TRANSITIONS", "SOMETIMES_IGNORED", "Aggregation",
    "Algorithm", "AlphaSchedule", "Bootstrap", "Learner", "NumberFormat", "Sampling", "Update", "random_states",
]  # fmt: skip

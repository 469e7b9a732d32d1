"""Simulated time: hardware profiles, the formulas that use them, their uncertainty, the version of the model."""

from swiftrl_core.dpusim.timing.hardware import (
    DEFAULT_HARDWARE,
    HARDWARE_PROFILES,
    BandwidthCurve,
    DmaTiming,
    HardwareProfile,
    resolve_hardware,
)
from swiftrl_core.dpusim.timing.seconds import dma_cycles, launch_seconds, transfer_seconds
from swiftrl_core.dpusim.timing.uncertainty import STATED, Uncertainty
from swiftrl_core.dpusim.timing.version import MODEL_VERSION

__all__ = [
    "DEFAULT_HARDWARE",
    "HARDWARE_PROFILES",
    "MODEL_VERSION",
    "STATED",
    "BandwidthCurve",
    "DmaTiming",
    "HardwareProfile",
    "Uncertainty",
    "dma_cycles",
    "launch_seconds",
    "resolve_hardware",
    "transfer_seconds",
]

"""What to train: a learner is algorithm x sampling x number format, with alpha, gamma and epsilon."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import isfinite
from types import MappingProxyType

import numpy as np

from swiftrl_core.learner import fixed_point
from swiftrl_core.learner.layout import constant, struct
from swiftrl_core.util.errors import SwiftRLError


class Algorithm(StrEnum):
    """Q-learning bootstraps from the largest next value, SARSA from the next action it draws itself."""

    Q_LEARNING = "q_learning"
    SARSA = "sarsa"


class Sampling(StrEnum):
    """The order of a pass over a chunk: sequential, strided by four, random with replacement, or from the end."""

    SEQ = "SEQ"
    STR = "STR"
    RAN = "RAN"
    REV = "REV"


class NumberFormat(StrEnum):
    """How a Q-value is kept: IEEE single precision, or fixed point in units of 1/10,000 or of 2^-13."""

    FP32 = "FP32"
    INT32 = "INT32"
    INT32_POW2 = "INT32_POW2"


class Aggregation(StrEnum):
    """How the cores' tables become one: see `swiftrl_core.training.aggregation`."""

    MEAN = "mean"
    VISITED = "visited"
    COUNT = "count"


class Update(StrEnum):
    """What a core does with a transition: the paper's temporal difference, or the variance-reduced one."""

    TD = "td"
    VR = "vr"


class AlphaSchedule(StrEnum):
    """How the learning rate goes on within a round: it stays, or it falls with a pair's updates."""

    CONSTANT = "constant"
    RESCALED_LINEAR = "rescaled_linear"


class Bootstrap(StrEnum):
    """Whose values a target takes: the table's as it is now, or as it was when the pass over the chunk began."""

    CURRENT = "current"
    FROZEN = "frozen"


CHOICES = MappingProxyType(
    {
        "algorithm": Algorithm,
        "sampling": Sampling,
        "number_format": NumberFormat,
        "aggregation": Aggregation,
        "update": Update,
        "alpha_schedule": AlphaSchedule,
        "bootstrap": Bootstrap,
    }
)
"""What a learner is made of, name to kind."""

BEYOND_THE_PAPER = MappingProxyType(
    {
        "aggregation": Aggregation.MEAN,
        "update": Update.TD,
        "alpha_schedule": AlphaSchedule.CONSTANT,
        "bootstrap": Bootstrap.CURRENT,
    }
)
"""Choices that came later, name to the paper's own."""


MOST_TRANSITIONS = 2**32 - 1
"""What a word counts: of one core (`struct learner_args` of layout.h), or of cores that draw together."""
LARGEST_COEFFICIENT_ERROR = 0.05
"""How far, relative to what was asked, fixed point may move alpha and 1 - gamma before it refuses."""


@dataclass(frozen=True)
class Learner:
    """One way to learn, complete and checked.

    Parameters
    ----------
    algorithm : Algorithm or str
        `q_learning` or `sarsa`.
    sampling : Sampling or str
        `SEQ`, `STR` or `RAN`; beyond the paper `REV`, the chunk from its end to its front.
    number_format : NumberFormat or str
        `FP32`, `INT32` (scale 10,000, the paper's) or `INT32_POW2` (scale 2^13).
    alpha : float
        Learning rate, above 0 and at most 1. The authors' code uses 0.1. Without meaning in `rescaled_linear`.
    gamma : float
        Discount, at least 0 and at most 1 (below 1 in fixed point). The authors' code uses 0.95.
    epsilon : float
        SARSA's probability of a random next action, from 0 to 1. The authors' code uses 0.1.
    reward_range : (float, float)
        Smallest and largest reward the learner will meet; fixed point proves with it that no product overflows.
    aggregation : Aggregation or str
        `mean` (the paper's), `visited` or `count`: see `swiftrl_core.training.aggregation`.
    update : Update or str
        `td` (the paper's), or `vr`, variance-reduced, for q_learning: see `dpu_src/td_update.h`.
    alpha_schedule : AlphaSchedule or str
        `constant` (the paper's), or `rescaled_linear`: 1 / (1 + (1 - gamma) n) at a pair's n-th update in a round,
        on its core. See `dpu_src/td_update.h`.
    bootstrap : Bootstrap or str
        `current` (the paper's), or `frozen`, periodic Q-learning: see `dpu_src/td_update.h`. Frozen, a DPU's tasklets can
        share a chunk (`dpu_src/tasklet_learner.c`), since pairs then learn independently of each other within a pass.
        For q_learning in SEQ or REV. What sarsa and RAN draw depends on the order of all updates, which tasklets
        would have to keep, so that nothing could be shared; STR's order within a pair could be kept, but differs from
        SEQ's in nothing that is known to matter.

    Raises
    ------
    SwiftRLError
        If a value is out of range, choices do not go together, or fixed point cannot hold the combination.
    """

    algorithm: Algorithm = Algorithm.Q_LEARNING
    sampling: Sampling = Sampling.SEQ
    number_format: NumberFormat = NumberFormat.FP32
    alpha: float = 0.1
    gamma: float = 0.95
    epsilon: float = 0.1
    reward_range: tuple[float, float] = (0.0, 1.0)
    aggregation: Aggregation = Aggregation.MEAN
    update: Update = Update.TD
    alpha_schedule: AlphaSchedule = AlphaSchedule.CONSTANT
    bootstrap: Bootstrap = Bootstrap.CURRENT

    def __post_init__(self) -> None:
        for name, kind in CHOICES.items():
            object.__setattr__(self, name, _choice(name, kind, getattr(self, name)))
        _within("alpha", self.alpha, 0, 1, low_excluded=True)
        _within("gamma", self.gamma, 0, 1)
        _within("epsilon", self.epsilon, 0, 1)
        low, high = self.reward_range
        if not (isfinite(low) and isfinite(high) and low <= high):
            raise SwiftRLError(
                f"reward_range is ({low}, {high}): give the smallest and the largest reward, two finite numbers"
            )
        if self.update == Update.VR and self.algorithm != Algorithm.Q_LEARNING:
            raise SwiftRLError(
                "update vr does not apply to sarsa: its targets are means of maxima, which q_learning bootstraps from; "
                "use q_learning, or update td"
            )
        if self.freezes:
            self._require_an_order_of_pairs()
        if self.decays and self.gamma == 1:
            raise SwiftRLError(
                "gamma is 1, at which alpha_schedule rescaled_linear never falls: use gamma below 1, or constant"
            )
        if self.number_format != NumberFormat.FP32:
            if self.gamma == 1:
                raise SwiftRLError(
                    f"gamma is 1, which {self.number_format} cannot bound: use gamma below 1, or FP32"
                )
            self._require_resolution()
        elif np.float32(self.alpha) == 0:
            raise SwiftRLError(f"alpha is {self.alpha:g}, which is 0 in FP32: give a larger one")

    def _require_an_order_of_pairs(self) -> None:
        """Refuse a frozen bootstrap where the order of all updates matters, or a way through the chunk it lacks."""
        if self.algorithm != Algorithm.Q_LEARNING:
            raise SwiftRLError(
                "bootstrap frozen does not apply to sarsa, whose draws depend on the order of all updates: use "
                "q_learning, or bootstrap current"
            )
        if self.sampling not in (Sampling.SEQ, Sampling.REV):
            reason = (
                "whose draws depend on the order of all updates"
                if self.sampling == Sampling.RAN
                else "whose order would differ from SEQ only within a pair"
            )
            raise SwiftRLError(
                f"bootstrap frozen does not apply to sampling {self.sampling}, {reason}: use SEQ or REV, or bootstrap "
                "current"
            )

    def _require_resolution(self) -> None:
        """Refuse what fixed point would turn into something else, or into nothing."""
        used = self.coefficients
        asked = {"1 - gamma": (1 - self.gamma, 1 - used.gamma_used)}
        if not self.decays:
            asked["alpha"] = (self.alpha, used.alpha_used)
        for name, (wanted, got) in asked.items():
            if abs(float(got) / wanted - 1) > LARGEST_COEFFICIENT_ERROR:
                raise SwiftRLError(
                    f"{self.number_format} would use {float(got):g} for {name} {wanted:g}, more than "
                    f"{LARGEST_COEFFICIENT_ERROR:.0%} off: use FP32, or a larger value"
                )
        largest = max(map(abs, self.reward_range))
        if 0 < largest * used.scale < 0.5:
            raise SwiftRLError(
                f"rewards up to {largest:g} vanish in {self.number_format}, whose unit is 1/{used.scale:,}: use FP32, "
                "or scale the rewards up"
            )

    def used(self) -> dict[str, float]:
        """Return the alpha and gamma that the number format makes of those asked for."""
        if self.number_format == NumberFormat.FP32:
            return {"alpha_used": float(np.float32(self.alpha)), "gamma_used": float(np.float32(self.gamma))}
        return {
            "alpha_used": float(self.coefficients.alpha_used),
            "gamma_used": float(self.coefficients.gamma_used),
        }

    @property
    def dtype(self) -> np.dtype:
        """The type of a table's entries: float32 or int32."""
        return np.dtype("<f4") if self.number_format == NumberFormat.FP32 else np.dtype("<i4")

    @property
    def decays(self) -> bool:
        """Whether alpha falls within a round, so that `alpha` itself has no meaning."""
        return self.alpha_schedule == AlphaSchedule.RESCALED_LINEAR

    @property
    def freezes(self) -> bool:
        """Whether targets take the values that a pass began with, so that a DPU's tasklets can share it."""
        return self.bootstrap == Bootstrap.FROZEN

    @property
    def synchronises_as_the_paper(self) -> bool:
        """Whether a round's two ends are the paper's: the mean goes down, alone, and tables come up to be averaged."""
        return self.update == Update.TD and self.aggregation == Aggregation.MEAN

    @property
    def scale(self) -> int:
        """Units of a table's entry per 1.0; 1 in FP32."""
        return 1 if self.number_format == NumberFormat.FP32 else self.coefficients.scale

    @cached_property
    def coefficients(self) -> fixed_point.Coefficients:
        """The integers of a fixed-point update; not defined in FP32."""
        make = {
            NumberFormat.INT32: fixed_point.decimal_coefficients,
            NumberFormat.INT32_POW2: fixed_point.binary_coefficients,
        }[self.number_format]
        return make(
            self.alpha, self.gamma, self.reward_range, decays=self.decays, vr=self.update == Update.VR
        )

    @property
    def switches(self) -> dict[str, int]:
        """The build switches of the kernel that learns this way; REV is SEQ over chunks turned round by the host."""
        sampling = Sampling.SEQ if self.sampling == Sampling.REV else self.sampling
        return {
            "ALGORITHM": constant(f"ALGORITHM_{self.algorithm.name}"),
            "SAMPLING": constant(f"SAMPLING_{sampling.name}"),
            "NUMBER_FORMAT": constant(f"NUMBER_FORMAT_{self.number_format.name}"),
            "UPDATE": constant(f"UPDATE_{self.update.name}"),
            "ALPHA_SCHEDULE": constant(f"ALPHA_SCHEDULE_{self.alpha_schedule.name}"),
            "BOOTSTRAP": constant(f"BOOTSTRAP_{self.bootstrap.name}"),
        }

    def arguments(self, transitions: np.ndarray, random_states: np.ndarray) -> np.ndarray:
        """Return the `learner_args` of every core, with no episodes yet.

        Parameters
        ----------
        transitions : int array (cores,)
            Rows in each core's chunk.
        random_states : uint32 array (cores,)
            Where each core's generator starts.

        Returns
        -------
        structured array (cores,)

        Raises
        ------
        SwiftRLError
            If a chunk has more rows than a word of 32 bits counts.
        """
        if (longest := int(np.max(transitions))) > MOST_TRANSITIONS:
            raise SwiftRLError(
                f"a core's chunk has {longest:,} transitions; a kernel counts to {MOST_TRANSITIONS:,}: use more cores"
            )
        args = np.zeros(len(transitions), struct("learner_args", self.dtype))
        args["transitions"] = transitions
        args["random_state"] = random_states
        args["explore_below"] = round(self.epsilon * 2**31)
        if self.number_format == NumberFormat.FP32:
            args["alpha"], args["gamma"] = self.alpha, self.gamma
            args["alpha_scale"] = args["gamma_scale"] = 1
        else:
            for name in ("alpha", "alpha_scale", "gamma", "gamma_scale"):
                args[name] = getattr(self.coefficients, name)
        return args

    def to_raw(self, values: np.ndarray) -> np.ndarray:
        """Return values (rewards, Q) in the format's own units: float32, or the nearest int32."""
        if self.number_format == NumberFormat.FP32:
            return np.asarray(values, self.dtype)
        return np.rint(np.asarray(values, np.float64) * self.scale).astype(self.dtype)

    def to_values(self, raw: np.ndarray) -> np.ndarray:
        """Return a raw table as float32 values."""
        if self.number_format == NumberFormat.FP32:
            return np.asarray(raw, np.float32)
        return (np.asarray(raw, np.float64) / self.scale).astype(np.float32)


def random_states(seed: int, cores: np.ndarray) -> np.ndarray:
    """Return where each core's generator starts: distinct for distinct cores, a function of (seed, core) alone.

    Parameters
    ----------
    seed : int
        At least 0.
    cores : int array (n,)
        The cores' numbers.

    The seed is hashed to 32 bits (NumPy's SeedSequence); core number times an odd constant is added and the sum
    scrambled by the finaliser of MurmurHash3. Every step after the hash is one to one in the core number, so no two
    cores of a run start alike.

    Returns
    -------
    uint32 array (n,)
    """
    if seed < 0:
        raise SwiftRLError(f"seed is {seed}: give a whole number of at least 0")
    base = np.random.SeedSequence(seed).generate_state(1)[0]
    x = base + np.asarray(cores, np.uint32) * np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def _choice(name: str, kind: type[StrEnum], given: str) -> StrEnum:
    try:
        return kind(given)
    except ValueError:
        raise SwiftRLError(f"{name} is {given!r}: choose one of {', '.join(kind)}") from None


def _within(name: str, value: float, low: float, high: float, *, low_excluded: bool = False) -> None:
    if not (isfinite(value) and low <= value <= high) or (low_excluded and value == low):
        bounds = f"above {low}" if low_excluded else f"from {low}"
        raise SwiftRLError(f"{name} is {value}: give a number {bounds} up to {high}")

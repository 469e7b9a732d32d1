"""A learner: algorithm x sampling x number format, with alpha, gamma and epsilon.

The fields of `Learner` are the one place where a choice is spelled in Python. The columns of a run, the options of the
command line and the switches of the kernels are derived from them.
"""

from dataclasses import dataclass, fields
from enum import EnumType, StrEnum
from fractions import Fraction
from functools import cached_property, partial
from math import isfinite
from types import MappingProxyType

import numpy as np

from swiftrl_core.learner import fixed_point
from swiftrl_core.learner.layout import constant, struct
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.settings import setting


class Algorithm(StrEnum):
    """Q-learning bootstraps from the largest next value, SARSA from the value of the next action it draws."""

    Q_LEARNING = "q_learning"
    SARSA = "sarsa"


class Sampling(StrEnum):
    """The order of a pass over a chunk: sequential, strided by four, random with replacement, or reversed."""

    SEQ = "SEQ"
    STR = "STR"
    RAN = "RAN"
    REV = "REV"


class NumberFormat(StrEnum):
    """The type of a Q-value: IEEE single precision, or fixed point in units of 1/10,000 or of 2^-13, or finer ones."""

    FP32 = "FP32"
    INT32 = "INT32"
    INT32_POW2 = "INT32_POW2"


class Aggregation(StrEnum):
    """How the host combines the cores' tables: see `swiftrl_core.training.aggregation`."""

    MEAN = "mean"
    VISITED = "visited"
    COUNT = "count"


class Update(StrEnum):
    """The update rule: the paper's temporal difference, or the variance-reduced one."""

    TD = "td"
    VR = "vr"


class AlphaSchedule(StrEnum):
    """The learning rate within a round: constant, or falling with the number of updates of a pair."""

    CONSTANT = "constant"
    RESCALED_LINEAR = "rescaled_linear"


class Bootstrap(StrEnum):
    """Where a target takes its values: from the table as it is now, or as it was when the pass began."""

    CURRENT = "current"
    FROZEN = "frozen"


MOST_TRANSITIONS = 2**32 - 1
"""The largest chunk of a core that `struct learner_args` of layout.h can count."""
LARGEST_COEFFICIENT_ERROR = 0.05
"""The largest relative error of alpha and 1 - gamma that fixed point accepts."""
PAPER_ALPHA = 0.1
"""From this constant alpha on, fixed point has the paper's unit; a smaller or decaying one, the finest that fits."""
ROUND_ALPHAS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""What a refusal tries in order to name the smallest alpha that fits."""
FEWEST_UNITS, FEWEST_DECAYING_UNITS = 400, 50
"""The least that alpha times the largest reward may be worth; a decaying alpha is smallest in its 65,535th update only.

Measured on both FrozenLakes, a table ends within 4 rewards divided by this number of FP32's: 0.01 for 400.
"""


@dataclass(frozen=True)
class Learner:
    """Everything that decides how a core learns from its chunk; checked, and immutable.

    Parameters
    ----------
    algorithm : Algorithm or str
        `q_learning` or `sarsa`.
    sampling : Sampling or str
        `SEQ`, `STR` or `RAN`; beyond the paper `REV`, the chunk from its end to its start.
    number_format : NumberFormat or str
        `FP32`, `INT32` (scale 10,000, the paper's) or `INT32_POW2` (scale 2^13), both finer for a small alpha: `units`.
    alpha : float
        Learning rate, above 0 and at most 1. The authors' code uses 0.1. `rescaled_linear` ignores it.
    gamma : float
        Discount factor, at least 0 and at most 1 (below 1 in fixed point). The authors' code uses 0.95.
    epsilon : float
        SARSA's probability of a random next action, from 0 to 1. The authors' code uses 0.1.
    reward_range : (float, float)
        Smallest and largest reward in the data; fixed point uses it to prove that no product overflows.
    aggregation : Aggregation or str
        `mean` (the paper's), `visited` or `count`: see `swiftrl_core.training.aggregation`.
    update : Update or str
        `td` (the paper's), or `vr`, variance-reduced, for q_learning: see `dpu_src/td_update.h`.
    alpha_schedule : AlphaSchedule or str
        `constant` (the paper's), or `rescaled_linear`: 1 / (1 + (1 - gamma) n) at a pair's n-th update in a round,
        on its core. See `dpu_src/td_update.h`.
    bootstrap : Bootstrap or str
        `current` (the paper's), or `frozen`, periodic Q-learning: see `dpu_src/td_update.h`. With frozen targets, pairs
        learn independently of each other within a pass, so a DPU's tasklets can share a chunk
        (`dpu_src/tasklet_learner.c`). For q_learning with SEQ or REV only: the draws of sarsa and RAN depend on the
        order of all updates, which tasklets would have to keep; STR differs from SEQ only in the order within a
        pair, which has no known benefit.
    units : int, optional
        Units of a fixed-point value per 1.0. By default 10,000 or 2^13 for a constant alpha of 0.1 or more, else so
        many times a power of two as fit 32 bits: see `dpu_src/fixed_point.h`. Agents of a population share it.

    Raises
    ------
    SwiftRLError
        If a value is out of range, choices do not go together, or fixed point cannot represent the combination.

    Examples
    --------
    >>> from swiftrl_core import Learner
    >>> learner = Learner("sarsa", number_format="INT32", alpha=0.25)
    >>> learner.used()
    {'alpha_used': 0.25, 'gamma_used': 0.95}
    >>> learner.to_raw([0.5])
    array([5000], dtype=int32)
    """

    algorithm: Algorithm = setting(
        Algorithm.Q_LEARNING,
        "bootstrap from the largest next value, or from the value of the next action",
        switch=True,
    )
    sampling: Sampling = setting(
        Sampling.SEQ,
        "order of a pass over a chunk: sequential, strided by four, random or reversed",
        switch=True,
    )
    number_format: NumberFormat = setting(
        NumberFormat.FP32, "single precision, or fixed point in units of 1/10,000 or of 2^-13", switch=True
    )
    alpha: float = setting(0.1, "learning rate", ignored_by="alpha_schedule")
    gamma: float = setting(0.95, "discount factor")
    epsilon: float = setting(0.1, "probability of a random next action in SARSA", ignored_by="algorithm")
    reward_range: tuple[float, float] = (0.0, 1.0)
    aggregation: Aggregation = setting(
        Aggregation.MEAN,
        "average over all cores, over those that visited a pair, or weighted by visits",
        beyond_the_paper=True,
    )
    update: Update = setting(
        Update.TD, "update rule: temporal difference, or variance-reduced", beyond_the_paper=True, switch=True
    )
    alpha_schedule: AlphaSchedule = setting(
        AlphaSchedule.CONSTANT,
        "constant alpha, or 1 / (1 + (1 - gamma) n) at a pair's n-th update in a round",
        beyond_the_paper=True,
        switch=True,
    )
    bootstrap: Bootstrap = setting(
        Bootstrap.CURRENT,
        "source of the targets: the current table, or the table at the start of the pass over the chunk",
        beyond_the_paper=True,
        switch=True,
    )
    units: int | None = None

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
        if self.frozen_bootstrap:
            self._require_an_order_of_pairs()
        if self.decaying_alpha and self.gamma == 1:
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
        """Refuse a frozen bootstrap where the order of all updates matters, or with a sampling it does not have."""
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
        """Refuse coefficients and rewards that fixed point would distort or round to nothing."""
        used = self.coefficients
        asked = {"1 - gamma": (1 - self.gamma, 1 - used.gamma_used)}
        if not self.decaying_alpha:
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
        if self._needs_a_fine_unit and not self._is_resolved(used):
            raise SwiftRLError(self._too_coarse(used))

    @property
    def _needs_a_fine_unit(self) -> bool:
        return (self.decaying_alpha or self.alpha < PAPER_ALPHA) and any(self.reward_range)

    def _is_resolved(self, used: fixed_point.Coefficients) -> bool:
        """Return whether the smallest alpha times the largest reward is worth enough units."""
        fewest = FEWEST_DECAYING_UNITS if self.decaying_alpha else FEWEST_UNITS
        return used.alpha_used * used.scale * Fraction(max(map(abs, self.reward_range))) >= fewest

    def _too_coarse(self, used: fixed_point.Coefficients) -> str:
        """Return the sentence that refuses an alpha whose steps would be lost in a unit."""
        lowest, highest = self.reward_range
        unit = (
            f"{self.number_format} with gamma {self.gamma:g} and rewards from {lowest:g} to {highest:g} has no finer "
            f"unit than 1/{used.scale:,}"
        )
        if self.decaying_alpha:
            return (
                f"{unit}, in which steps are lost as alpha falls to {float(used.alpha_used):.2g}: use FP32, or a "
                "constant alpha"
            )
        smallest = next(filter(self._accepts, ROUND_ALPHAS), PAPER_ALPHA)
        return f"{unit}, in which steps of alpha {self.alpha:g} are lost: use FP32, or alpha from {smallest:g} on"

    def _accepts(self, alpha: float) -> bool:
        """Return whether fixed point would hold another alpha."""
        try:
            return alpha > self.alpha and self._is_resolved(self._coefficients(alpha))
        except SwiftRLError:
            return False

    def used(self) -> dict[str, float]:
        """Return alpha and gamma as the number format rounds them: `alpha_used` and `gamma_used`."""
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
    def decaying_alpha(self) -> bool:
        """Whether alpha falls within a round, so that the setting `alpha` has no effect."""
        return self.alpha_schedule == AlphaSchedule.RESCALED_LINEAR

    @property
    def frozen_bootstrap(self) -> bool:
        """Whether targets take the values from the start of the pass, so that a DPU's tasklets can share it."""
        return self.bootstrap == Bootstrap.FROZEN

    @property
    def synchronises_as_the_paper(self) -> bool:
        """Whether rounds synchronise as in the paper: the host broadcasts the mean alone and averages the tables."""
        return self.update == Update.TD and self.aggregation == Aggregation.MEAN

    @property
    def without_effect(self) -> dict[str, str]:
        """Settings that this learner ignores, each with the name of the choice that makes it so."""
        ignored = {"alpha": self.decaying_alpha, "epsilon": self.algorithm != Algorithm.SARSA}
        return {name: choice for name, choice in SOMETIMES_IGNORED.items() if ignored[name]}

    @property
    def scale(self) -> int:
        """The integer that stands for 1.0 in a table; 1 in FP32."""
        return 1 if self.number_format == NumberFormat.FP32 else self.coefficients.scale

    @cached_property
    def coefficients(self) -> fixed_point.Coefficients:
        """The integers of a fixed-point update; not defined in FP32."""
        return self._coefficients(self.alpha)

    def _coefficients(self, alpha: float) -> fixed_point.Coefficients:
        rule = {
            NumberFormat.INT32: fixed_point.decimal_coefficients,
            NumberFormat.INT32_POW2: fixed_point.binary_coefficients,
        }[self.number_format]
        make = partial(
            rule,
            alpha,
            self.gamma,
            self.reward_range,
            decaying_alpha=self.decaying_alpha,
            vr=self.update == Update.VR,
        )
        used = make(scale=self.units)
        return fixed_point.finest(make, used) if self.units is None and self._needs_a_fine_unit else used

    @property
    def switches(self) -> dict[str, int]:
        """The build switches of this learner's kernel; REV is SEQ over chunks that the host has reversed."""
        built = {name: getattr(self, name) for name in _SWITCHES}
        if self.sampling == Sampling.REV:
            built["sampling"] = Sampling.SEQ
        return {name.upper(): constant(f"{name}_{value.name}".upper()) for name, value in built.items()}

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
        """Return values (rewards, Q) in the format's raw units: float32, or the nearest int32."""
        if self.number_format == NumberFormat.FP32:
            return np.asarray(values, self.dtype)
        return np.rint(np.asarray(values, np.float64) * self.scale).astype(self.dtype)

    def to_values(self, raw: np.ndarray) -> np.ndarray:
        """Return a raw table as float32 values."""
        if self.number_format == NumberFormat.FP32:
            return np.asarray(raw, np.float32)
        return (np.asarray(raw, np.float64) / self.scale).astype(np.float32)


CHOICES = MappingProxyType(
    {entry.name: entry.type for entry in fields(Learner) if isinstance(entry.type, EnumType)}
)
"""A learner's choices, name to kind."""

BEYOND_THE_PAPER = MappingProxyType(
    {entry.name: entry.default for entry in fields(Learner) if "beyond_the_paper" in entry.metadata}
)
"""Choices that the paper does not have, name to the value that does what the paper did."""

SOMETIMES_IGNORED = MappingProxyType(
    {entry.name: entry.metadata["ignored_by"] for entry in fields(Learner) if "ignored_by" in entry.metadata}
)
"""Numbers that only some learners use, name to the choice that decides it."""

_SWITCHES = tuple(entry.name for entry in fields(Learner) if "switch" in entry.metadata)


def _choice(name: str, kind: type[StrEnum], given: str) -> StrEnum:
    try:
        return kind(given)
    except ValueError:
        raise SwiftRLError(f"{name} is {given!r}: choose one of {', '.join(kind)}") from None


def _within(name: str, value: float, low: float, high: float, *, low_excluded: bool = False) -> None:
    if not (isfinite(value) and low <= value <= high) or (low_excluded and value == low):
        bounds = f"above {low}" if low_excluded else f"from {low}"
        raise SwiftRLError(f"{name} is {value}: give a number {bounds} up to {high}")

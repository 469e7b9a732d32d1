"""The host's side of `dpu_src/fixed_point.h`: the unit of values, coefficients, and the proof that products fit.

The header states the two rules, why a small alpha needs a finer unit, and derives the range; this module evaluates them
for a learner.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from swiftrl_core.learner.layout import constant
from swiftrl_core.util.errors import SwiftRLError

INT32_MAX = 2**31 - 1
MOST_BITS = 13
FEWEST_BITS = 8
"""Coefficients of INT32_POW2 have 13 bits where products allow it, and never under 8 (0.4 % of 1)."""
LARGEST_FINE_ALPHA = 2**10
"""Shifts of INT32_POW2 pass `MOST_BITS` only as long as the coefficient of alpha stays below."""
FEWEST_DECAYING_BITS = 5
"""A decaying alpha of INT32_POW2 keeps so many significant bits (3 %), so that values can have a finer unit."""
LARGEST_CHANGE = 0.01
"""A finer unit may change alpha and 1 - gamma, as they are rounded, by no more than this part."""
FINEST_SCALE = 2**60
"""No unit is finer: scales stay integers of 64 bits however small the rewards are."""
LARGEST_ENTRY = 2**30 - 1
"""Update vr: no entry of a round's table is larger, so that it and its deviation together fit 32 bits."""
Range = tuple[float, float]


@dataclass(frozen=True)
class Coefficients:
    """The integers that a fixed-point kernel multiplies and divides (or shifts) by, and the range of its values.

    Attributes
    ----------
    scale : int
        Units of a stored value per 1.0.
    alpha, alpha_scale, gamma, gamma_scale : int
        Arguments of the kernel, as `fixed_point.h` uses them.
    alpha_used, gamma_used : Fraction
        The learning rate and discount that the integers stand for; of a decaying alpha the smallest.
    low, high : int
        Smallest and largest value an entry of the table can take, in units; in update vr the first round's.
    largest_deviation : int
        Update vr: the largest distance of an entry to the round's table, in units, at which all products fit.
    """

    scale: int
    alpha: int
    alpha_scale: int
    gamma: int
    gamma_scale: int
    alpha_used: Fraction
    gamma_used: Fraction
    low: int
    high: int
    largest_deviation: int

    @property
    def largest_gap(self) -> float:
        """Update vr: the largest `|Tbar - Qbar|`, in units, that a round may start with; see `fixed_point.h`."""
        return float(self.largest_deviation * (1 - self.gamma_used) - Fraction(1, 2))


def finest(make: Callable[..., Coefficients], coarse: Coefficients) -> Coefficients:
    """Return the coefficients in the finest unit: that of `coarse`, halved as often as all numbers fit 32 bits.

    Parameters
    ----------
    make : callable
        One of the two functions below, given everything but `scale`.
    coarse : Coefficients
        What it returns for the format's own unit.
    """
    best = coarse
    while 2 * best.scale <= FINEST_SCALE:
        try:
            finer = make(scale=2 * best.scale)
        except SwiftRLError:
            break
        changes = (
            finer.alpha_used / coarse.alpha_used - 1,
            (1 - finer.gamma_used) / (1 - coarse.gamma_used) - 1,
        )
        if max(finer.high, -finer.low) > LARGEST_ENTRY or max(map(abs, changes)) > LARGEST_CHANGE:
            break
        best = finer
    return best


def decimal_coefficients(
    alpha: float,
    gamma: float,
    rewards: Range,
    *,
    decaying_alpha: bool = False,
    vr: bool = False,
    scale: int | None = None,
) -> Coefficients:
    """Return the INT32 rule's coefficients: fractions in lowest terms.

    Parameters
    ----------
    alpha : float
        Learning rate, above 0 and at most 1; used as the nearest fraction with a denominator up to 10,000.
    gamma : float
        Discount, at least 0 and below 1; likewise.
    rewards : (float, float)
        Smallest and largest reward.
    decaying_alpha : bool
        alpha is `td_update.h`'s h / (h + (h - g) n) instead, gamma being g / h; the coefficients then hold h and the
        largest denominator.
    vr : bool
        Products are those of update vr; that its first round fits is proved here, the rest when a round begins.
    scale : int, optional
        Units of a stored value per 1.0, by default the paper's 10,000.

    Raises
    ------
    SwiftRLError
        If alpha or gamma is lost in rounding, or a product could leave 32 bits.
    """
    decimals = constant("INT32_SCALE")
    scale = scale or decimals
    step, discount = (Fraction(x).limit_denominator(decimals) for x in (alpha, gamma))
    if step == 0 or discount == 1:
        raise _not_representable("INT32", alpha, gamma, "a multiple of 1/10,000")
    over, under = step.numerator, step.denominator
    if decaying_alpha:
        over = discount.denominator
        under = over + (over - discount.numerator) * constant("VISITS_LIMIT")
        step = Fraction(over, under)
    low, high = _range(scale, rewards, discount)
    product = max(
        discount.numerator * max(high, -low) + discount.denominator // 2,
        over * _width(low, high, vr) + under // 2,
    )
    if product > INT32_MAX:
        raise _overflow("INT32", alpha, gamma, rewards)
    return Coefficients(
        scale,
        alpha=over,
        alpha_scale=under,
        gamma=discount.numerator,
        gamma_scale=discount.denominator,
        alpha_used=step,
        gamma_used=discount,
        low=low,
        high=high,
        largest_deviation=min(
            (INT32_MAX - discount.denominator // 2) // max(discount.numerator, 1),
            (INT32_MAX - under // 2) // (2 * over),
            LARGEST_ENTRY,
        ),
    )


def binary_coefficients(
    alpha: float,
    gamma: float,
    rewards: Range,
    *,
    decaying_alpha: bool = False,
    vr: bool = False,
    scale: int | None = None,
) -> Coefficients:
    """Return the INT32_POW2 rule's coefficients: shifts, values by default in units of 2^-13.

    Parameters and errors as for `decimal_coefficients`.
    """
    scale = scale or constant("INT32_POW2_SCALE")
    for gamma_bits in range(MOST_BITS, FEWEST_BITS - 1, -1):
        complement = round((1 - gamma) * 2**gamma_bits)
        if complement == 0:
            raise _not_representable(
                "INT32_POW2", alpha, gamma, f"at least 2^-{gamma_bits + 1} away from 0 and 1"
            )
        discount = 1 - Fraction(complement, 2**gamma_bits)
        low, high = _range(scale, rewards, discount)
        if complement * max(high, -low) + 2 ** (gamma_bits - 1) <= INT32_MAX:
            break
    else:
        raise _overflow("INT32_POW2", alpha, gamma, rewards)
    width = _width(low, high, vr)
    if decaying_alpha:
        slowest = 1 + (1 - discount) * constant("VISITS_LIMIT")
        alpha_bits, shift = _decaying_bits(width, floor(slowest).bit_length() - 1)
        step, alpha_used = 2**alpha_bits, 1 / slowest
    else:
        alpha_bits = shift = _most_bits(alpha, width)
        step = round(alpha * 2**alpha_bits)
        alpha_used = Fraction(step, 2**alpha_bits)
    if not alpha_bits:
        raise _overflow("INT32_POW2", alpha, gamma, rewards)
    if step == 0:
        raise _not_representable(
            "INT32_POW2", alpha, gamma, f"at least 2^-{alpha_bits + 1} away from 0 and 1"
        )
    return Coefficients(
        scale,
        alpha=step,
        alpha_scale=alpha_bits,
        gamma=complement,
        gamma_scale=gamma_bits,
        alpha_used=alpha_used,
        gamma_used=discount,
        low=low,
        high=high,
        largest_deviation=min(
            (INT32_MAX - 2 ** (gamma_bits - 1)) // complement,
            (INT32_MAX - 2 ** (shift - 1)) // (2 * step),
            LARGEST_ENTRY,
        ),
    )


def _range(scale: int, rewards: Range, discount: Fraction) -> tuple[int, int]:
    """Return the smallest and largest entry of a table that starts at zero, in units (derived in fixed_point.h)."""
    least = min(0, round(rewards[0] * scale))
    most = max(0, round(rewards[1] * scale))
    return floor((least - Fraction(1, 2)) / (1 - discount)), ceil((most + Fraction(1, 2)) / (1 - discount))


def _width(low: int, high: int, vr: bool) -> int:
    """Return the largest |target - Q|: all of the range, or in update vr twice how far entries get from Qbar = 0."""
    return 2 * max(high, -low) if vr else high - low


def _most_bits(alpha: float, width: int) -> int:
    """Return the most bits to shift by that a constant alpha can have, or 0."""
    for bits in range(30, FEWEST_BITS - 1, -1):
        step = round(alpha * 2**bits)
        few = bits <= MOST_BITS or step < LARGEST_FINE_ALPHA
        if few and step * width + 2 ** (bits - 1) <= INT32_MAX:
            return bits
    return 0


def _decaying_bits(width: int, more: int) -> tuple[int, int]:
    """Return the most significant bits that a decaying alpha can have, and the largest shift, or 0 and 0.

    Where alpha is smallest, the shift is `more` bits longer.
    """
    for bits in range(MOST_BITS, FEWEST_DECAYING_BITS - 1, -1):
        if 2**bits * width + 2 ** (bits + more - 1) <= INT32_MAX:
            return bits, bits + more
    return 0, 0


def _overflow(name: str, alpha: float, gamma: float, rewards: Range) -> SwiftRLError:
    return SwiftRLError(
        f"{name} cannot hold alpha {alpha:g}, gamma {gamma:g} with rewards from {rewards[0]:g} to {rewards[1]:g}: "
        "a product could pass 32 bits; use FP32, or an alpha and a gamma that are simpler fractions (0.1, 0.95)"
    )


def _not_representable(name: str, alpha: float, gamma: float, expected: str) -> SwiftRLError:
    return SwiftRLError(
        f"{name} cannot represent alpha {alpha:g} with gamma {gamma:g}: each has to be {expected}; use FP32, "
        "or other values"
    )

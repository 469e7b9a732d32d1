"""Validation results: tables of predicted and published values, and bars that they pass or miss."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Bar:
    """One thing that must hold.

    Attributes
    ----------
    name : str
        What is compared with what.
    value, limit : float
        The figure found, and the most it may be.
    unit : str
        Of both, such as `%`.
    detail : str
        What the value summarises, such as the worst case.
    """

    name: str
    value: float
    limit: float
    unit: str = "%"
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bar is met; a value that is not a number meets none."""
        return bool(self.value <= self.limit)

    def __str__(self) -> str:
        mark = "ok    " if self.holds else "MISSED"
        text = f"{mark} {self.name}: {self.value:.2f} {self.unit} (at most {self.limit:g} {self.unit})"
        return f"{text}; {self.detail}" if self.detail else text


@dataclass(frozen=True, eq=False)
class Section:
    """One comparison.

    Attributes
    ----------
    name : str
        Short, as `swiftrl validate --only` takes it.
    title : str
        What is compared with what.
    table : DataFrame
        One row a case. Relative errors are in per cent, predicted / published - 1.
    bars : tuple of Bar
        Empty where nothing is judged.
    notes : tuple of str
        What a reader must know to read the table.
    """

    name: str
    title: str
    table: pd.DataFrame
    bars: tuple[Bar, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Whether every bar is met."""
        return all(bar.holds for bar in self.bars)

    def __str__(self) -> str:
        table = self.table.to_string(index=False, float_format=lambda value: f"{value:.4g}", na_rep="-")
        lines = [f"== {self.title}", table, *self.notes, *map(str, self.bars)]
        return "\n".join(lines)

    def to_json(self) -> dict:
        """Return plain lists and numbers; NaN becomes None."""
        rows = self.table.astype(object).where(self.table.notna(), None).to_dict("records")
        bars = [
            {
                "name": bar.name,
                "value": None if math.isnan(bar.value) else float(bar.value),
                "limit": bar.limit,
                "unit": bar.unit,
                "holds": bar.holds,
                "detail": bar.detail,
            }
            for bar in self.bars
        ]
        return {"title": self.title, "rows": rows, "bars": bars, "notes": list(self.notes)}


def percent_error(predicted: float, published: float) -> float:
    """Return predicted / published - 1 in per cent."""
    return 100 * (predicted / published - 1)


def mean_error(errors: Iterable[float]) -> float:
    """Return the mean of the absolute values; NaN of nothing."""
    sizes = [abs(error) for error in errors]
    return sum(sizes) / len(sizes) if sizes else math.nan

"""Interactive controls for the quickstart: cores, tau, algorithm and number format, with the policy and the return.

Every change trains again, on the CPU engine, whose tables equal a DPU's bit for bit. No times are shown.
"""

import base64
import io
import time
from typing import Any

import ipywidgets
from matplotlib.figure import Figure

from swiftrl_core.data import Dataset
from swiftrl_core.data.environments import Environment
from swiftrl_core.experiments.quickstart import (
    fig_learning_curve,
    fig_policy,
    policy_on_map,
    train_with_curve,
)
from swiftrl_core.learner import Algorithm, Learner, NumberFormat
from swiftrl_core.training.loop import Schedule
from swiftrl_core.util.errors import SwiftRLError

CORES = (1, 4, 16, 64, 250, 1000, 2000)
TAUS = (1, 2, 5, 10, 20, 50, 100)
CURVE_POINTS = 40
"""Maximum number of points in a learning curve; each takes an exact evaluation."""
PIXELS_PER_INCH = 110


class Explorer(ipywidgets.VBox):
    """Controls with the policy and the learning curve of their values.

    Parameters
    ----------
    environment : Environment
        FrozenLake of any size.
    dataset : Dataset
        Data to learn from.
    episodes : int
        Passes over the data.
    seed : int
        Seed of the cores' generators.
    gamma : float

    Attributes
    ----------
    cores, tau : ipywidgets.SelectionSlider
    algorithm, number_format : ipywidgets.Dropdown
    lake, curve : ipywidgets.Image
    message : ipywidgets.HTML
        A sentence on the training, or its error.
    """

    def __init__(
        self,
        environment: Environment,
        dataset: Dataset,
        episodes: int = 100,
        seed: int = 0,
        gamma: float = 0.95,
    ) -> None:
        self._environment, self._dataset = environment, dataset
        self._episodes, self._seed, self._gamma = episodes, seed, gamma
        slider, menu = ipywidgets.SelectionSlider, ipywidgets.Dropdown
        few = [count for count in CORES if count <= len(dataset)]
        taus = [tau for tau in TAUS if tau <= episodes]
        self.cores = slider(
            options=few, value=few[len(few) // 2], description="cores", continuous_update=False
        )
        self.tau = slider(
            options=taus, value=taus[len(taus) // 2], description="tau", continuous_update=False
        )
        self.algorithm = menu(options=list(map(str, Algorithm)), description="algorithm")
        self.number_format = menu(options=list(map(str, NumberFormat)), description="numbers")
        self.lake, self.curve = (ipywidgets.Image(format="png", width=360) for _ in range(2))
        self.message = ipywidgets.HTML()
        choices = (self.cores, self.tau, self.algorithm, self.number_format)
        pictures = ipywidgets.HBox(
            [self.lake, self.curve], layout=ipywidgets.Layout(align_items="flex-start")
        )
        super().__init__([ipywidgets.HBox(choices[:2]), ipywidgets.HBox(choices[2:]), self.message, pictures])
        self.add_class("swiftrl-explorer")
        self._train()
        for control in choices:
            control.observe(lambda _: self._train(), names="value")

    def _train(self) -> None:
        """Train with the values of the controls, and show the result."""
        start = time.perf_counter()
        try:
            learner = Learner(
                self.algorithm.value,
                number_format=self.number_format.value,
                gamma=self._gamma,
                reward_range=self._dataset.reward_range,
            )
            schedule = Schedule(self.cores.value, self._episodes, self.tau.value, self._seed)
            label = f"{learner.algorithm} {learner.number_format}"
            result, curve = train_with_curve(
                self._environment, self._dataset, learner, schedule, "cpu", label, CURVE_POINTS
            )
        except SwiftRLError as error:
            self.message.value = f"<b>{error}</b>"
            return
        self.lake.value = _png(fig_policy(policy_on_map(self._environment, result.q_table)))
        self.curve.value = _png(fig_learning_curve(curve))
        reached, optimum = curve[["exact_return", "optimum"]].iloc[-1]
        interval = "every episode" if schedule.tau == 1 else f"every {schedule.tau} episodes"
        self.message.value = (
            f"{len(self._dataset) * self._episodes:,} updates on {schedule.cores:,} cores, averaged {interval}: "
            f"exact return {reached:.4f} of {optimum:.4f}, "
            f"shown after {time.perf_counter() - start:.1f} s"
        )

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Add the policy as a picture, for viewers without widgets."""
        shown = super()._repr_mimebundle_(**options)
        if isinstance(shown, dict):
            shown["image/png"] = base64.b64encode(self.lake.value).decode()
        return shown


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=PIXELS_PER_INCH)
    return stream.getvalue()

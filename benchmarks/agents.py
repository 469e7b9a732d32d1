"""The rate at which one thread trains independent agents on one stream of data: `swiftrl bench`."""

import itertools

import numpy as np

from swiftrl_core.backend import Evidence, Population
from swiftrl_core.backends.cpu.agents import train
from swiftrl_core.data import collect
from swiftrl_core.experiments.multi_agent_probe import spread
from swiftrl_core.learner import Learner, NumberFormat
from swiftrl_core.training.agents import populate

ENVIRONMENTS = ("frozenlake", "taxi")
TRANSITIONS = 10_000
"""As in the authors' multi-agent code."""


def rows(agents: int = 1024, episodes: int = 50, repetitions: int = 7) -> list[dict]:
    """Measure SEQ Q-learning of agents with an alpha and a gamma of their own, on one thread.

    Cases are interleaved, so that a machine that is slow for a while is slow for all.

    Parameters
    ----------
    agents : int
    episodes : int
        Passes of each agent over 10,000 transitions.
    repetitions : int
        Measurements of each case; a row holds their medians.

    Returns
    -------
    list of dict
        `name`, `env`, `number_format`, `algorithm`, `sampling`, `agents`, `threads`, `ns_per_agent_update` (of
        processor time, to which other work on this machine adds little), `ns_on_the_clock` and `evidence`.
    """
    cases = list(itertools.product(ENVIRONMENTS, NumberFormat))
    populations = [_population(*case, agents) for case in cases]
    spent = np.array(
        [[_seconds(population, episodes) for population in populations] for _ in range(1 + repetitions)]
    )
    ns = (
        1e9 * np.median(spent[1:], axis=0) / (agents * TRANSITIONS * episodes)
    )  # the first time is for warming up
    return [
        {
            "name": "multi-agent",
            "env": environment,
            "number_format": str(number_format),
            "algorithm": "q_learning",
            "sampling": "SEQ",
            "agents": agents,
            "threads": 1,
            "ns_per_agent_update": float(computing),
            "ns_on_the_clock": float(clock),
            "evidence": str(Evidence.MEASURED),
        }
        for (environment, number_format), (computing, clock) in zip(cases, ns, strict=True)
    ]


def table(measured: list[dict]) -> str:
    """Return rows as text in columns."""
    lines = [f"{'':36}{'agents':>7}{'ns/agent-update':>17}{'on the clock':>14}"]
    lines += [
        f"{row['name']:13}{row['env']:12}{row['number_format']:11}{row['agents']:7}"
        f"{row['ns_per_agent_update']:17.4f}{row['ns_on_the_clock']:14.4f}"
        for row in measured
    ]
    return "\n".join(lines)


def _seconds(population: Population, episodes: int) -> tuple[float, float]:
    """Return the processor time and the wall-clock time of training on one thread, in seconds."""
    population.args["episodes"] = episodes
    done = train(population, threads=1)
    return done.machine["core_s"], done.kernel_s


def _population(environment: str, number_format: NumberFormat, agents: int) -> Population:
    """Return agents with alpha in hundredths and gamma in fortieths, which fixed point can hold."""
    dataset = collect(environment, TRANSITIONS, seed=0)
    number = np.arange(agents)
    learner = Learner(number_format=number_format, reward_range=dataset.reward_range)
    return populate(dataset, spread(learner, (1 + number % 32) / 100, (8 + number // 32 % 31) / 40))

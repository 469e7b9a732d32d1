"""The one exception that users see: a sentence with the offender, what was expected and what to do."""


class SwiftRLError(Exception):
    """A mistake in the input or a limit of the machine, described in one sentence.

    The only exception that the package raises on purpose. The `swiftrl` command prints its text and exits with 1.

    Examples
    --------
    >>> from swiftrl_core import Learner, SwiftRLError
    >>> try:
    ...     Learner(algorithm="dqn")
    ... except SwiftRLError as error:
    ...     print(error)
    algorithm is 'dqn': choose one of q_learning, sarsa
    """


class CompileError(SwiftRLError):
    """A C source did not compile or link; the text carries the compiler's own message."""

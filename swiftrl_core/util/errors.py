"""The one exception a user sees: a sentence that names the offender, what was expected and what to do."""


class SwiftRLError(Exception):
    """A mistake in the input or a limit of the machine, told in one sentence."""


class CompileError(SwiftRLError):
    """A C source did not compile or link; the text carries the compiler's own message."""

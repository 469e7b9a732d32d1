"""The experiments: questions, the runs that answer them, figures, and what the figures show."""

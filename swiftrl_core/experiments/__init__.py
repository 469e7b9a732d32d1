"""The experiments, one module each: a question, the runs that answer it, tables, figures and a summary."""

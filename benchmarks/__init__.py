"""Benchmarks of the simulator, the engine and sweeps, with baselines: `swiftrl bench` runs these modules.

Each has `rows(...)`, which measures and returns a dict for each row, and `table(rows)`, which formats them. One with
bars also has `missed(rows)`, which returns a sentence for each bar that was missed.
"""

"""The host's side of a set of DPUs: allocation, arguments, transfers, launches, logs."""

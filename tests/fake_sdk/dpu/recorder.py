"""What the stand-in has, and what was asked of it. A fresh import starts afresh."""

available = 70
"""DPUs of the pretended server: one whole rank and a part of another, as with faulty DPUs."""

calls: list[tuple] = []
"""(method, details) of every call, in order."""

open_sets: list = []
"""Sets that were allocated and not freed."""

"""The version of the simulator's model, a column of every result row."""

MODEL_VERSION = "4"
"""Changes with every rule, cost, formula or number that alters simulated instructions, cycles or seconds.

* 1: the proxy's rules and the routines' costs; several tasklets by a closed form of each barrier phase's totals.
* 2: several tasklets by replay of their transfers, locks and barriers (replay.h): as before for one tasklet and for
  tasklets that share nothing; up to a third more cycles where they contend for locks or for the DMA engine.
* 3: stalls of the float and 64-bit routines take issue slots (costs.h): the instructions are the same, kernels in FP32
  take up to 4 % more cycles, 64-bit products and quotients 5 %.
* 4: tasklets of a fast run take turns in the order of time (fast.h): as before where work is divided beforehand; where
  tasklets share it by locks and flags, as in the exact run.
"""

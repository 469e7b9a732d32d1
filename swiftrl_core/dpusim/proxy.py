"""What each RISC-V instruction would cost a DPU: rules over the decoded program, applied once at load."""

import numpy as np

from swiftrl_core.dpusim.rv32 import Instruction, Op

#: Changes whenever a cost or rule changes what a program is said to take.
MODEL_VERSION = "dpusim-1"


def static_costs(code: list[Instruction], functions: dict[str, tuple[int, int]], base: int):
    cost = np.ones(len(code), np.int32)
    for i, instruction in enumerate(code):
        if instruction.op is Op.LUI:
            cost[i] = 0
        if instruction.op in (Op.BARRIER, Op.ROUTINE, Op.EXIT):
            cost[i] = 0
        if i and code[i - 1].op is Op.ROUTINE:
            cost[i] = 0
    return cost, frozenset()

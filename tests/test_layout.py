"""Python's reading of layout.h equals the C compiler's."""

import ctypes

import numpy as np
import pytest

from swiftrl_core.learner import layout
from swiftrl_core.util import toolchain

PROBE = """
#define NUMBER_FORMAT {number_format}
#include <stddef.h>
#include "layout.h"
size_t size(void) {{ return sizeof(struct {name}); }}
size_t offset(int member) {{
  static const size_t offsets[] = {{ {offsets} }};
  return offsets[member];
}}
"""


@pytest.mark.parametrize("number_format", ["FP32", "INT32", "INT32_POW2"])
@pytest.mark.parametrize("name", ["transition", "learner_args", "run", "outcome"])
def test_structs_have_the_size_and_offsets_that_c_gives_them(tmp_path, name, number_format):
    dtype = layout.struct(name, np.float32 if number_format == "FP32" else np.int32)
    source = tmp_path / "probe.c"
    offsets = ", ".join(f"offsetof(struct {name}, {member})" for member in dtype.names)
    source.write_text(
        PROBE.format(
            number_format=layout.constant(f"NUMBER_FORMAT_{number_format}"), name=name, offsets=offsets
        )
    )
    probe = ctypes.CDLL(
        str(toolchain.compile_shared_library([source], include_directories=[layout.KERNEL_DIRECTORY]))
    )
    assert probe.size() == dtype.itemsize
    assert [probe.offset(i) for i in range(len(dtype.names))] == [
        dtype.fields[member][1] for member in dtype.names
    ]


def test_a_transition_is_eight_bytes_and_a_block_holds_whole_strides():
    record = layout.struct("transition", np.float32).itemsize
    assert record == 8
    assert layout.constant("DMA_BLOCK_BYTES") // record % layout.constant("STR_STRIDE") == 0


def test_an_unknown_constant_is_an_error():
    with pytest.raises(KeyError):
        layout.constant("NO_SUCH_NUMBER")

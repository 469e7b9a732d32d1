"""Python's reading and writing of layout.h's structs equal the C compiler's."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.data.transitions import Dataset
from swiftrl_core.learner import Learner, chunks, layout
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

ACCESSORS = """
#define NUMBER_FORMAT NUMBER_FORMAT_FP32
#include "layout.h"
void unpack(const struct transition *records, int64_t rows, int32_t (*found)[4]) {
  for (int64_t i = 0; i < rows; i++) {
    found[i][0] = (int32_t)pair_of(records[i]);
    found[i][1] = (int32_t)next_of(records[i]);
    found[i][2] = ends(records[i]);
    found[i][3] = ENDS_IN((int32_t)records[i].step);
  }
}
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


@st.composite
def datasets(draw):
    """Transitions of an environment of any size that a record holds, its corners included."""
    n_actions = draw(st.sampled_from([1, 2, 3, 6, 18]))
    most = min(layout.constant("STATE_LIMIT"), layout.constant("PAIR_LIMIT") // n_actions)
    n_states = draw(st.integers(1, most) | st.just(most))
    rows = draw(st.integers(1, 20))

    def column(values, dtype):
        return np.array(draw(st.lists(values, min_size=rows, max_size=rows)), dtype)

    state = st.integers(0, n_states - 1) | st.just(n_states - 1)
    return Dataset(
        state=column(state, np.int32),
        action=column(st.integers(0, n_actions - 1), np.int32),
        reward=np.zeros(rows, np.float32),
        next_state=column(state, np.int32),
        terminated=column(st.booleans(), np.bool_),
        truncated=np.zeros(rows, np.bool_),
        episode=np.zeros(rows, np.int32),
        n_states=n_states,
        n_actions=n_actions,
    )


@pytest.fixture(scope="module")
def unpack(tmp_path_factory):
    """Each record's (pair, next state, ends) by the accessors of layout.h, and ENDS_IN of a signed word."""
    source = tmp_path_factory.mktemp("accessors") / "unpack.c"
    source.write_text(ACCESSORS)
    headers = [layout.KERNEL_DIRECTORY / name for name in ("layout.h", "inline.h")]
    library = toolchain.compile_shared_library(
        [source], headers=headers, include_directories=[layout.KERNEL_DIRECTORY]
    )
    function = ctypes.CDLL(str(library)).unpack
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p], None
    return function


@given(datasets())
def test_accessors_take_apart_what_pack_put_together(unpack, data):
    records = chunks.pack(data, Learner())
    found = np.empty((len(records), 4), np.int32)
    unpack(records.ctypes.data, len(records), found.ctypes.data)
    expected = (
        data.state * data.n_actions + data.action,
        data.next_state,
        data.terminated,
        -data.terminated.astype(int),
    )
    np.testing.assert_array_equal(found, np.column_stack(expected))

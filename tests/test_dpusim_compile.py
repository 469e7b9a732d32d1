"""Compiling kernels: what comes out, what is cached, and the one sentence for each thing that does not fit."""

import pytest

from swiftrl_core.dpusim.program.compile import CHIPS, compile_kernel
from swiftrl_core.dpusim.program.elf import MRAM_HEAP, load_program
from swiftrl_core.util.errors import CompileError, SwiftRLError

SOURCE = """
#include <attributes.h>
#include <defs.h>
#include <mram.h>
#include "value.h"
__host uint32_t answer = VALUE;
__mram uint32_t first[2] = {1, 2};
__mram_noinit uint64_t big[1000];
static uint32_t hidden = 7;
int main(void) { answer += hidden++ + NR_TASKLETS; return 0; }
"""


@pytest.fixture
def kernel(tmp_path):
    (tmp_path / "value.h").write_text("#define VALUE 1\n")
    source = tmp_path / "kernel.c"
    source.write_text(SOURCE)
    return source


def write(tmp_path, text: str):
    source = tmp_path / "kernel.c"
    source.write_text(text)
    return source


def test_a_program_knows_its_memories_and_names(kernel):
    program = load_program(compile_kernel(kernel, nr_tasklets=3, stack_size=512))
    assert (program.nr_tasklets, program.stack_bytes, program.chip) == (3, 512, CHIPS["v1A"])
    assert program.symbols["first"] == (0x08000000, 8)
    assert program.symbols["big"] == (0x08000008, 8000)
    assert program.symbols["answer"][0] % 8 == 0
    assert program.heap_start == program.stacks_start + 3 * 512
    assert {segment.address < 0x10000 for segment in program.segments} == {True, False}
    assert not program.prints


def test_the_host_sees_what_the_sdks_loader_shows(kernel):
    symbols = load_program(compile_kernel(kernel)).symbols
    assert {"answer", "first", "big", "main", MRAM_HEAP} <= symbols.keys()
    assert "hidden" not in symbols
    assert "NR_TASKLETS" not in symbols
    heap, size = symbols[MRAM_HEAP]
    assert heap == 0x08000000 + 8008
    assert heap + size == 0x08000000 + (64 << 20)


def test_a_header_beside_the_source_is_part_of_the_cache_key(kernel):
    first = compile_kernel(kernel)
    assert compile_kernel(kernel) == first
    (kernel.parent / "value.h").write_text("#define VALUE 2\n")
    assert compile_kernel(kernel) != first


def test_defines_and_levels_are_part_of_the_cache_key(kernel):
    (kernel.parent / "value.h").write_text("")
    paths = {compile_kernel(kernel, {"VALUE": value}, opt=opt) for value in (1, 2) for opt in ("-O2", "-Os")}
    assert len(paths) == 4


def test_a_bare_define(tmp_path):
    source = write(tmp_path, "#ifndef BARE\n#error no\n#endif\nint main(void) { return 0; }\n")
    assert compile_kernel(source, {"BARE": None}).exists()


def test_include_directories_are_searched(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "extra.h").write_text("#define EXTRA 1\n")
    source = write(tmp_path, '#include "extra.h"\nint main(void) { return EXTRA; }\n')
    assert compile_kernel(source, include_dirs=[tmp_path / "more"]).exists()


def test_the_dpus_macros_are_defined(tmp_path):
    check = "#if !defined(DPU) || !defined(__dpu__) || !defined(__dpu_v1B__)\n#error no\n#endif\n"
    text = check + "int main(void) { return 0; }"
    assert load_program(compile_kernel(write(tmp_path, text), chip="v1B")).chip.name == "v1B"


OVERFLOWS = {
    "WRAM": "static char a[70000]; int main(void) { a[((volatile int *)a)[0]] = 1; return 0; }",
    "MRAM": "#include <mram.h>\n__mram_noinit char a[65 << 20]; int main(void) { return 0; }",
    "IRAM": "int main(void) {\n" + '__asm__ volatile("nop");\n' * 4200 + "return 0; }",
    "56 mutexes": "#include <mutex.h>\n"
    + "".join(f"MUTEX_INIT(m{i});\n" for i in range(57))
    + "int main(void) {\n"
    + "".join(f"mutex_lock(m{i});\n" for i in range(57))
    + "return 0; }",
}


@pytest.mark.parametrize("memory", OVERFLOWS)
def test_what_does_not_fit_is_named(tmp_path, memory):
    with pytest.raises(CompileError, match=f"kernel.c does not link: .*{memory}") as caught:
        compile_kernel(write(tmp_path, OVERFLOWS[memory]))
    assert "\n" not in str(caught.value)


def test_an_undefined_function_is_named(tmp_path):
    source = write(tmp_path, "int missing(void); int main(void) { return missing(); }")
    with pytest.raises(
        CompileError, match="missing is not defined, neither in the kernel nor in the DPU runtime"
    ):
        compile_kernel(source)


def test_a_syntax_error_shows_the_compilers_message(tmp_path):
    with pytest.raises(CompileError, match="kernel.c:1:.*error: "):
        compile_kernel(write(tmp_path, "int main(void) { return }"))


def test_wram_and_mram_pointers_do_not_mix(tmp_path):
    text = "#include <mram.h>\nint main(void) { char *p = DPU_MRAM_HEAP_POINTER; return *p; }"
    with pytest.raises(CompileError, match="address space"):
        compile_kernel(write(tmp_path, text))


def test_a_dma_of_an_impossible_constant_size_does_not_compile(tmp_path):
    read = "mram_read(DPU_MRAM_HEAP_POINTER, b, 12);"
    text = f"#include <mram.h>\nint main(void) {{ static __dma_aligned char b[16]; {read} return 0; }}"
    with pytest.raises(CompileError, match="multiple of 8 from 8 to 2048"):
        compile_kernel(write(tmp_path, text))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"nr_tasklets": 0}, "choose 1 to 24 tasklets"),
        ({"nr_tasklets": 25}, "choose 1 to 24 tasklets"),
        ({"nr_tasklets": 17, "chip": "v1B"}, "choose 1 to 16 tasklets"),
        ({"stack_size": 100}, "not a multiple of 8"),
        ({"chip": "v2"}, "choose one of v1A, v1B"),
    ],
)
def test_arguments_out_of_range(kernel, arguments, sentence):
    with pytest.raises(CompileError, match=sentence):
        compile_kernel(kernel, **arguments)


@pytest.mark.parametrize(
    ("header", "call"), [("vmutex.h", "vmutex_trylock(0, 0)"), ("stdlib.h", "strtol(0, 0, 10)")]
)
def test_headers_promise_nothing_that_the_sdk_lacks(tmp_path, header, call):
    with pytest.raises(CompileError, match=call.partition("(")[0]):
        compile_kernel(write(tmp_path, f"#include <{header}>\nint main(void) {{ return {call}; }}"))


def test_the_size_of_a_stack_is_a_macro_only_where_it_is_given(tmp_path):
    source = write(
        tmp_path,
        """
#include <attributes.h>
#ifdef STACK_SIZE_DEFAULT
__host int size = STACK_SIZE_DEFAULT;
#else
__host int size = -1;
#endif
int main(void) { return 0; }
""",
    )
    given = [{}, {"stack_size": 512}, {"defines": {"STACK_SIZE_DEFAULT": "2048", "NR_TASKLETS": 3}}]
    found = []
    for program in (load_program(compile_kernel(source, **arguments)) for arguments in given):
        address, size = program.symbols["size"]
        (data,) = (s for s in program.segments if s.address <= address < s.address + len(s.data))
        value = data.data[address - data.address :][:size]
        found.append((program.stack_bytes, int.from_bytes(value, "little", signed=True), program.nr_tasklets))
    assert found == [(1024, -1, 1), (512, 512, 1), (2048, 2048, 3)]
    with pytest.raises(CompileError, match="STACK_SIZE_DEFAULT=1k is not a decimal number"):
        compile_kernel(source, {"STACK_SIZE_DEFAULT": "1k"})


#: Pieces of public kernels that did not compile, or their like: headers of the SDK, fields of a barrier, functions.
ACCEPTED = {
    "inttypes.h": "#include <inttypes.h>\n#include <stdio.h>\n"
    'void f(void) { printf("%" PRIu64 PRId32, (uint64_t)1, 2); }',
    "limits by stdint.h": "#include <stdint.h>\nunsigned f(void) { return UINT_MAX + INT8_MAX + CHAR_BIT; }",
    "atomic_bit.h": "#include <atomic_bit.h>\nATOMIC_BIT_INIT(bit);\n"
    "void f(void) { ATOMIC_BIT_ACQUIRE(bit); ATOMIC_BIT_RELEASE(bit); }",
    "built_ins.h": "#include <built_ins.h>\n"
    "int f(int a, int b) { int c; __builtin_mul_sl_uh_rrr(c, a, b); return c; }",
    "nop": "void f(void) { __builtin_nop(); }",
    "barrier fields": "#include <barrier.h>\nbarrier_t b;\n"
    "void f(void) { b.wait_queue = 0xff; b.count = b.initial_count = 1; b.lock = 0; barrier_wait(&b); }",
    "exit codes": "#include <stdlib.h>\nint f(void) { return EXIT_FAILURE + (int)labs(-1L) + (int)lldiv(7, 2).rem; }",
    "errno.h": "#include <errno.h>\nint f(void) { return errno == ENOMEM; }",
    "allocators": "#include <buddy_alloc.h>\n#include <fsb_allocator.h>\nvoid *f(void) { return buddy_alloc(16); }",
    "sysdef.h": "#include <sysdef.h>\nsysname_t f(void) { return 0; }",
    "memmram_utils.h": '#include <memmram_utils.h>\n_Static_assert(DMA_ALIGNED(9) == 16, "");',
    "profiling.h": "#include <profiling.h>\nPROFILING_INIT(p);\n"
    "void f(void) { profiling_start(&p); profiling_stop(&p); }",
    "attributes": "#include <attributes.h>\n__aligned(16) __used int x;\n"
    "DEPRECATED int old(void);\n__NO_RETURN void f(void) { for (;;); }",
    "a transfer of 4 bytes": "#include <mram.h>\n__mram_noinit int m[64];\n__dma_aligned int w[2];\n"
    "void f(void) { mram_write(w, m, sizeof(int)); }",
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_the_sdk_compiles_compiles(tmp_path, case):
    compile_kernel(write(tmp_path, f"{ACCEPTED[case]}\nint main(void) {{ return 0; }}\n"), nr_tasklets=2)


def test_dpu_assembly_is_refused_in_a_sentence(tmp_path):
    text = 'int main(void) { unsigned r; __asm__ volatile("move %0, id" : "=r"(r)); return r; }'
    with pytest.raises(CompileError, match="DPU assembly, which cannot be simulated; write that part in C"):
        compile_kernel(write(tmp_path, text))


def test_a_program_of_several_sources_and_with_flags(tmp_path):
    other = tmp_path / "part" / "other.c"
    other.parent.mkdir()
    (other.parent / "kind.h").write_text("enum kind { FIRST, SECOND };\n")
    other.write_text('#include "kind.h"\nunsigned size_of_kind(void) { return sizeof(enum kind); }\n')
    source = write(
        tmp_path,
        "#include <attributes.h>\nunsigned size_of_kind(void);\n__host unsigned x;\n"
        "int main(void) { x = size_of_kind(); return 0; }\n",
    )
    plain, short = (compile_kernel([source, other], flags=flags) for flags in ((), ["-fshort-enums"]))
    assert plain != short
    assert plain.stem == short.stem == "kernel"
    (other.parent / "kind.h").write_text("enum kind { FIRST, SECOND, THIRD };\n")
    assert compile_kernel([source, other]) != plain
    with pytest.raises(CompileError, match="at least one C file"):
        compile_kernel([])
    with pytest.raises(CompileError, match="absent.c does not exist"):
        compile_kernel([source, tmp_path / "absent.c"])


def test_a_missing_source(tmp_path):
    with pytest.raises(CompileError, match="absent.c does not exist; give the path of a C file"):
        compile_kernel(tmp_path / "absent.c")


def test_not_a_dpu_program(tmp_path):
    with pytest.raises(SwiftRLError, match="compile it first"):
        load_program(tmp_path / "absent.elf")
    (tmp_path / "text").write_text("not an ELF file")
    with pytest.raises(SwiftRLError, match="is not a program for the DPU simulator"):
        load_program(tmp_path / "text")

"""A mutation run: change one operator or number at a time, and count the changes that the file's tests notice.

make mutants, or python tests/mutate.py --sample 50 --only evaluation. It works in a copy of the clone.
A survivor is a missing test, or a change that no caller can observe.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = {
    "dpu_src/td_update.h": "cpu_engine choices training tasklets gpu_bits",
    "dpu_src/td_rule.h": "fixed_point_error cpu_engine choices tasklets",
    "dpu_src/fixed_point.h": "fixed_point_error cheap_arithmetic cpu_engine choices",
    "swiftrl_core/training/loop.py": "training sampled choices",
    "swiftrl_core/training/synchronisation.py": "training choices",
    "swiftrl_core/data/evaluation.py": "evaluation environments",
    "swiftrl_core/sweeps/row.py": "runs fewer_updates",
    "swiftrl_core/sweeps/results.py": "golden_hashes runs store sweep",
}
"""Each file with the test files that should notice a change, the likeliest first."""
OPERATORS = "Lt LtE Gt GtE Eq NotEq Is IsNot In NotIn And Or Add Sub Mult Div".split()
OPERATORS += "< <= > >= == != + - * / << >> && ||".split()
SWAPS = dict(zip(OPERATORS, (OPERATORS[place ^ 1] for place in range(len(OPERATORS))), strict=True))
SWAPS["FloorDiv"] = "Mult"
C_TOKEN = re.compile(r"(?<= )(?:[<>=!]=|<<|>>|&&|\|\||[-+*/<>])(?= )|(?<![\w.\"])\d+(?![\w.\"])")


def python_mutants(source: str) -> Iterator[tuple[str, str]]:
    """Yield each mutant's name, and the whole text of its module."""
    for place, _ in enumerate(ast.walk(ast.parse(source))):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[place]
        before = ast.unparse(node)
        operator = node.ops[0] if isinstance(node, ast.Compare) else getattr(node, "op", None)
        if swapped := SWAPS.get(type(operator).__name__):
            new = getattr(ast, swapped)()  # a tree's operators are shared with other trees
            node.op, node.ops = new, [new, *getattr(node, "ops", [])[1:]]
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            node.value = not node.value if isinstance(node.value, bool) else node.value + 1
        elif isinstance(node, ast.IfExp):
            node.body, node.orelse = node.orelse, node.body
        else:
            continue
        yield f"{node.lineno}: {before} -> {ast.unparse(node)}", ast.unparse(tree)


def c_mutants(source: str) -> Iterator[tuple[str, str]]:
    """Yield the same of a header, of its code outside comments and directives."""
    code = re.sub(r"(?ms)/\*.*?\*/|^#[^\n]*", lambda found: re.sub(r"[^\n]", "~", found[0]), source)
    for found in C_TOKEN.finditer(code):
        new = SWAPS.get(found[0]) or str(int(found[0]) + 1)
        line = source.count("\n", 0, found.start()) + 1
        name = f"{line}: {found[0]} -> {new} in {source.splitlines()[line - 1].strip()}"
        yield name, source[: found.start()] + new + source[found.end() :]


def passes(copy: Path, tests: str) -> bool:
    """Whether the tests pass; endless loops do not."""
    files = [f"tests/test_{name}.py" for name in tests.split()]
    command = ["timeout", "900", sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *files]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=5, help="mutants of each file (default: 5)")
    parser.add_argument("--only", default="", help="part of the names of the files to change")
    options, outcomes = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "clone"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", "_build"))
        for name, tests in ((name, tests) for name, tests in TESTS.items() if options.only in name):
            if not passes(copy, tests):
                sys.exit(f"{name}: its tests fail without a change, so a sample would show nothing")
            source = (copy / name).read_text()
            mutants = list((c_mutants if name.endswith(".h") else python_mutants)(source))
            random.Random(0).shuffle(mutants)
            for change, text in mutants[: options.sample]:
                (copy / name).write_text(text)
                outcomes.append("survived" if passes(copy, tests) else "killed")
                print(f"{outcomes[-1]:9}{name}:{change}", flush=True)
            (copy / name).write_text(source)
    print(f"{outcomes.count('killed')} of {len(outcomes)} killed")


if __name__ == "__main__":
    main()

"""The documentation: every example runs, and every public name is described.

A section of a page, from one ``##`` heading to the next, is one test: its Python blocks run in
order, after those that come before the page's first ``##``. A block of ``>>>`` lines is a doctest.
What follows ``python`` on the fence's line says how a block runs: ``gpu`` on the emulated device,
``notest`` not at all.
"""

import doctest
import importlib
import inspect
import itertools
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import attrs
import pytest

import cpreplay
from tests.conftest import Backend
from tests.test_examples import require, run

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.REPORT_NDIFF
OPTIONAL = ("gymnasium", "jax", "torch")

_FENCE = re.compile(r"^```python\b[ ]*(?P<mark>.*)\n(?P<code>(?:.*\n)*?)```$", re.MULTILINE)
_HEADING = re.compile(r"^## +(?P<title>.+)$", re.MULTILINE)


@attrs.frozen
class Block:
    """One fenced block of Python, and where it begins."""

    path: Path
    line: int
    code: str
    on_device: bool

    def run(self, names: dict[str, Any]) -> None:
        if not self.code.startswith(">>>"):
            exec(compile("\n" * (self.line - 1) + self.code, str(self.path), "exec"), names)
            return
        parsed = doctest.DocTestParser().get_doctest(
            self.code, names, self.path.name, str(self.path), self.line - 1
        )
        run_doctest(parsed)
        names.update(parsed.globs)


@attrs.frozen
class Section:
    """What one test runs."""

    page: str
    title: str
    blocks: tuple[Block, ...]

    @property
    def on_device(self) -> bool:
        return any(block.on_device for block in self.blocks)

    def imports(self, module: str) -> bool:
        pattern = re.compile(rf"^(>>> )?(import|from) {module}\b", re.MULTILINE)
        return any(pattern.search(block.code) for block in self.blocks)

    def run(self) -> None:
        names: dict[str, Any] = {"__name__": "__main__"}
        for block in self.blocks:
            block.run(names)


def run_doctest(test: doctest.DocTest) -> None:
    report: list[str] = []
    results = doctest.DocTestRunner(optionflags=FLAGS).run(
        test, out=report.append, clear_globs=False
    )
    assert results.failed == 0, "".join(report)


def blocks_of(path: Path, text: str) -> Iterator[tuple[int, Block]]:
    """The blocks to run, with their offsets in the text."""
    for fence in _FENCE.finditer(text):
        mark, line = fence["mark"], text.count("\n", 0, fence.start("code")) + 1
        assert mark in ("", "gpu", "notest"), f"{path.name}:{line - 1}: python {mark}"
        if mark != "notest":
            yield fence.start(), Block(path, line, fence["code"], mark == "gpu")


def sections_of(path: Path, text: str) -> list[Section]:
    found = list(blocks_of(path, text))
    headings = list(_HEADING.finditer(text))
    bounds = [*(heading.start() for heading in headings), len(text)]
    before = tuple(block for at, block in found if at < bounds[0])
    sections = [Section(path.name, "before the first heading", before)] if before else []
    for heading, (start, end) in zip(headings, itertools.pairwise(bounds), strict=True):
        own = tuple(block for at, block in found if start <= at < end)
        if own:
            sections.append(Section(path.name, heading["title"], before + own))
    return sections


SECTIONS = [
    section for path in PAGES for section in sections_of(path, path.read_text(encoding="utf-8"))
]


def parametrize(on_device: bool) -> pytest.MarkDecorator:
    chosen = [section for section in SECTIONS if section.on_device == on_device]
    return pytest.mark.parametrize(
        "section", chosen, ids=[f"{section.page}: {section.title}" for section in chosen]
    )


@parametrize(on_device=False)
def test_an_example_does_what_its_page_says(section: Section) -> None:
    require(*filter(section.imports, OPTIONAL))
    section.run()


@parametrize(on_device=True)
def test_a_device_example_does_what_its_page_says(
    section: Section, emulated_device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_over(emulated_device.cupy))
    section.run()


def torch_over(cupy: Any) -> ModuleType:
    """What the pages use of PyTorch on a device: its streams and graphs, over the fake CuPy."""
    torch: Any = ModuleType("torch")
    current = [cupy.cuda.Stream.null]

    class Graph:
        def replay(self) -> None:
            self.captured.launch(current[-1])

    class Capturing:
        def __init__(self, graph: Graph) -> None:
            self.graph = graph

        def __enter__(self) -> None:
            current.append(cupy.cuda.Stream(non_blocking=True))
            current[-1].begin_capture()

        def __exit__(self, *exception: Any) -> None:
            self.graph.captured = current.pop().end_capture()

    torch.cuda = SimpleNamespace(
        CUDAGraph=Graph,
        current_stream=lambda: SimpleNamespace(__cuda_stream__=current[-1].__cuda_stream__),
        graph=Capturing,
        synchronize=lambda: cupy.cuda.Device().synchronize(),
    )
    torch.from_dlpack = cupy.from_dlpack
    return torch


def test_a_wrong_example_fails() -> None:
    right, wrong = "```python\n>>> 1 + 1\n2\n```\n", "```python\n>>> 1 + 1\n3\n```\n"
    plain = "```python\nassert 1 + 1 == 3\n```\n"
    for text, fails in ((right, False), (wrong, True), (right + plain, True)):
        (section,) = sections_of(ROOT / "page.md", f"# Page\n## Section\n{text}")
        if fails:
            with pytest.raises(AssertionError):
                section.run()
        else:
            section.run()


def test_no_python_block_is_left_out() -> None:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        fences = re.findall(r"^[ ]*(?:```|~~~)+[ ]*\{?(?:py|code|doctest)", text, re.MULTILINE)
        assert len(fences) == len(_FENCE.findall(text)), path.name


def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    require("furo", "myst_parser", "numpydoc", "sphinx")
    built = run("-m", "sphinx", "-W", "--keep-going", "-q", str(ROOT / "docs"), str(tmp_path))
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "api.html").exists()


# Docstrings

MODULES = [module.name for module in pkgutil.walk_packages(cpreplay.__path__, "cpreplay.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_do_what_they_say(name: str) -> None:
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        run_doctest(test)


def public_names() -> list[str]:
    return [name for name in cpreplay.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_is_on_the_api_page(name: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    kind = "function" if inspect.isfunction(getattr(cpreplay, name)) else "(class|exception)"
    assert re.search(rf"^\.\. auto{kind}:: cpreplay\.{name}$", page, re.MULTILINE)


@pytest.mark.parametrize("module", ["cpreplay.block_aliases", "cpreplay.gym"])
def test_so_is_every_public_name_that_is_imported_from_elsewhere(module: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in importlib.import_module(module).__all__:
        described = rf"^\.\. auto(class|function):: {module}\.{name}$|`{name}`"
        assert re.search(described, page, re.MULTILINE), name


def public_callables() -> Iterator[Any]:
    """Functions and methods, with the docstring of the class beside which theirs is read."""
    for name in public_names():
        thing = getattr(cpreplay, name)
        if inspect.isfunction(thing):
            yield pytest.param(thing, "", id=name)
        elif not issubclass(thing, Exception):
            for member, method in inspect.getmembers(thing, inspect.isfunction):
                if not member.startswith("_"):
                    yield pytest.param(method, inspect.getdoc(thing) or "", id=f"{name}.{member}")


def test_everything_public_has_a_docstring() -> None:
    for name in public_names():
        thing = getattr(cpreplay, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            for member, value in vars(thing).items():
                if isinstance(value, property) and not member.startswith("_"):
                    assert value.__doc__, f"{name}.{member}"


@pytest.mark.parametrize(("function", "beside"), list(public_callables()))
def test_a_docstring_names_parameters_results_and_errors(
    function: Callable[..., Any], beside: str
) -> None:
    text = inspect.getdoc(function) or ""
    assert re.match(r"\S.*\.($|\n)", text), "the first line is a sentence"
    if re.search(r"see `\w+\.\w+`|Parameters are those of `\w+`", text):
        return  # described there
    signature = inspect.signature(function)
    names = [name for name in signature.parameters if name != "self"]
    described = part(text, "Parameters")
    for name in names:
        assert re.search(rf"^(.*, )?(\*\*)?{name}(, .*)?( :|$)", described, re.MULTILINE), name
    if names and "." in function.__qualname__ and signature.return_annotation is not None:
        assert part(text, "Returns")
    for error in re.findall(r"raise (\w+Error)\(", inspect.getsource(function)):
        assert error in text + beside


def part(docstring: str, title: str) -> str:
    """The text of a numpydoc section, empty where there is none."""
    pattern = rf"^{title}\n-+\n(?P<text>.*?)(?=^[A-Z]\w+\n-+\n|\Z)"
    found = re.search(pattern, docstring, re.MULTILINE | re.DOTALL)
    return found["text"] if found else ""

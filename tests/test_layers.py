"""Who may import whom: as the table in docs/design.md says."""

import ast
import re
import sys
from pathlib import Path

import pytest

import cpreplay

PACKAGE = Path(cpreplay.__file__).parent
DESIGN = PACKAGE.parent / "docs" / "design.md"
FILES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix(): path
    for pattern in ("*.py", "*.pyi")  # the second has the types of what is compiled
    for path in PACKAGE.rglob(pattern)
}
MODULES = sorted(FILES)

# The layers as the design page has them: | layer | modules | idea |
LAYERS = {
    module: int(layer)
    for layer, modules in re.findall(r"^\| (\d+) \| ([^|]+) \|", DESIGN.read_text(), re.MULTILINE)
    for module in re.findall(r"`([\w/]+)`", modules)
}

# The command line is over the public names, and has no layer of its own.
SAME_LAYER = {("__main__", "__init__")}

# From outside, what each module may use beside the standard library.
THIRD_PARTY = {"numpy", "attrs", "zstandard"}
OPTIONAL = {"gym": {"gymnasium"}}  # by package


def imports_of(module: str) -> set[str]:
    """Full names of everything that a module imports, wherever in it."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            source = node.module or ""
            names |= {f"{source}.{alias.name}" for alias in node.names}
    return names


def own_modules(module: str) -> set[str]:
    """The modules of cpreplay that one imports."""
    own = {name for name in imports_of(module) if name.split(".")[0] == "cpreplay"}
    found = set()
    for name in own:
        parts = name.split(".")[1:]
        candidates = []
        for count in range(len(parts), 0, -1):  # the longest that is a module or a package
            path = "/".join(parts[:count])
            candidates += [path, f"{path}/__init__"]
        found.add(next((path for path in candidates if path in MODULES), "__init__"))
    return found


def test_every_module_has_a_layer_in_the_design_page() -> None:
    assert sorted(LAYERS) == MODULES


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_lower_layers_alone(module: str) -> None:
    for other in own_modules(module):
        lower = LAYERS[other] < LAYERS[module]
        assert lower or (module, other) in SAME_LAYER, f"{module} imports {other}"


@pytest.mark.parametrize("module", MODULES)
def test_the_core_needs_three_packages_and_no_more(module: str) -> None:
    top = {name.split(".")[0] for name in imports_of(module)}
    allowed = THIRD_PARTY | OPTIONAL.get(module.split("/")[0], set())
    assert top - sys.stdlib_module_names - allowed <= {"cpreplay"}
    assert not top & {"pickle", "dill", "cloudpickle", "marshal", "shelve", "cupy"}


def test_gymnasium_is_imported_by_one_package_that_no_module_outside_it_imports() -> None:
    inside = [module for module in MODULES if module.split("/")[0] == "gym"]
    importers = [
        module
        for module in MODULES
        if "gymnasium" in {name.split(".")[0] for name in imports_of(module)}
    ]
    assert importers == ["gym/recorder", "gym/restarts"]
    for module in set(MODULES) - set(inside):
        assert not own_modules(module) & set(inside), module


@pytest.mark.parametrize("module", MODULES)
def test_only_the_device_modules_name_cupys_module(module: str) -> None:
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    strings = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    imports = (
        "import_module"
        in {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} | names
    )
    assert not imports or module == "cuda_device"
    assert "cupy" not in strings or module in ("cuda_device", "__main__")


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_evaluated_that_came_as_text(module: str) -> None:
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}

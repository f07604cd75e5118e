"""Public names of a package that are loaded on first use (PEP 562), so that importing the package stays cheap."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def on_demand(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """A `__getattr__` for `package`: `modules` has the names that each of its modules gives."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        found: object = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load

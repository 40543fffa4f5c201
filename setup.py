"""The optional compiled part of the build: metadata lives in pyproject.toml.

``ext_modules()`` names every Cython file under ``kclient``. Each extension is
``optional``: without Cython or a C compiler the build goes on and the pure twin runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup


def ext_modules() -> list[Extension]:
    """Extensions for the ``.pyx`` files in the tree, none when Cython is missing."""
    sources = sorted(Path("kclient").rglob("*.pyx"))
    if not sources:
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    flags = [] if os.name == "nt" else ["-O3", "-g0"]
    modules = cythonize(
        [
            Extension(".".join(path.with_suffix("").parts), [str(path)], extra_compile_args=flags)
            for path in sources
        ]
    )
    for module in modules:
        module.optional = True  # cythonize makes new extensions, and forgets this
    return list(modules)


setup(ext_modules=ext_modules())

"""The optional compiled part of the build: metadata lives in pyproject.toml.

``ext_modules()`` names every Cython file under ``kclient``. Each extension is
``optional``: without Cython or a C compiler the build goes on and the pure twin runs.
"""

from __future__ import annotations

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
    modules = [
        Extension(".".join(path.with_suffix("").parts), [str(path)], optional=True)
        for path in sources
    ]
    return list(cythonize(modules))


setup(ext_modules=ext_modules())

"""Builds the compiled loops of host buffers. Everything else is in setup.cfg.

Where there is no compiler the installation goes on without them, and NumPy does their work, unless
CPREPLAY_REQUIRE_NATIVE=1 says otherwise: for wheels that are made to be given away.
"""

import os
import sys
import sysconfig
from glob import glob

import numpy
from setuptools import Extension, setup

# Without contraction and fast-math: results are those of NumPy and of the device, bit for bit.
GCC = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-strict-aliasing", "-fvisibility=hidden"]
MSVC = ["/std:c++17", "/O2", "/fp:precise"]

# One wheel for every later Python. Those without a GIL have no stable ABI, and get their own.
STABLE = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"py_limited_api": "cp311"}

setup(
    options={"bdist_wheel": STABLE},
    ext_modules=[
        Extension(
            "cpreplay._native",
            ["host_src/module.cpp"],
            include_dirs=["host_src", "cuda_src", numpy.get_include()],
            depends=[*glob("host_src/*.h"), *glob("cuda_src/*.cu*")],
            extra_compile_args=MSVC if sys.platform == "win32" else GCC,
            language="c++",
            py_limited_api=True,
            optional=os.environ.get("CPREPLAY_REQUIRE_NATIVE") != "1",
        )
    ],
)

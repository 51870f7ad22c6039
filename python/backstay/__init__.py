"""backstay: makes a program on MPI survive the loss of a process, a node or the whole job.

    import backstay
    run = backstay.Session()
    run.protect("u", u)

The compiled module is loaded when a name of it is first used, not on import: the command line, which imports this
package too, works on a login node without MPI.
"""

from importlib import import_module as _import_module

__version__ = "0.1.0"

# The names that backstay.session promises; they bring the compiled module and MPI with them.
_FROM_SESSION = (
    "Session",
    "Access",
    "Code",
    "Computation",
    "Error",
    "Outcome",
    "Placement",
    "RankLost",
    "ReplacedWarning",
    "Resumed",
    "State",
    "Status",
    "Verified",
    "block",
    "distributed_list",
    "rank_private",
    "replicated",
)

__all__ = ["__version__", *_FROM_SESSION]


def __getattr__(name):
    if name not in _FROM_SESSION:
        raise AttributeError(f"module 'backstay' has no attribute {name!r}")
    return getattr(_import_module("backstay.session"), name)


def __dir__():
    return sorted([*globals(), *_FROM_SESSION])

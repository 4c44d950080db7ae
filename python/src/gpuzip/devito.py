"""gpuzip in the place of PyRevolve below Devito: `gpuzip.devito.use()` before `import devito`."""

import sys
from types import ModuleType
from typing import Any, Dict

from . import pyrevolve
from .config import Config
from .errors import StateError

_chosen: Dict[str, Any] = {}


class Revolver(pyrevolve.SingleLevelRevolver):
    """`gpuzip.pyrevolve.Revolver` with the configuration of `use`, for callers that name none."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{**_chosen, **named})


def use(**config: Any) -> None:
    """Makes Devito's checkpointing gpuzip's: `Revolver`, `DevitoCheckpoint` and `CheckpointOperator` of
    `devito`, and `checkpointing=True` of the solvers in Devito's `examples.seismic`.

    `config` are keys of the configuration, such as `host_budget="4 GiB"` or `compressor="lorenzo"`; without
    keys, a solver has PyRevolve's number of checkpoints. The first call comes before `import devito`,
    which reads the module `pyrevolve` once; later calls change the configuration.
    """
    Config(**config)
    known = sys.modules.get("pyrevolve")
    if getattr(known, "Revolver", None) is not Revolver:
        if "devito" in sys.modules:
            raise StateError("devito is imported already: call gpuzip.devito.use() before `import devito`")
        known = ModuleType("pyrevolve", __doc__)
        known.__dict__.update(vars(pyrevolve), Revolver=Revolver, __name__="pyrevolve")
        sys.modules["pyrevolve"] = known
    _chosen.clear()
    _chosen.update(config)

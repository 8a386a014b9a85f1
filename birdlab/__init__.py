"""birdlab: computer vision on birds, from frames to a report that can be mailed.

``import birdlab as bl`` is all a notebook needs: ``run = bl.start("reports/demo.yaml")`` gives the study's tables and
the means to show tables and figures. Everything else is imported from its own room when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "start"]

if TYPE_CHECKING:
    from birdlab.study import start


def __getattr__(name: str) -> Any:
    # Imported on first use: `import birdlab` and `birdlab --help` must not wait for polars.
    if name == "start":
        from birdlab.study import start

        return start
    raise AttributeError(f"module 'birdlab' has no attribute {name!r}")

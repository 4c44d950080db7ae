"""Progress of a shot, with tqdm."""

from typing import Iterator

from .actions import BACKWARD, FORWARD, Action
from .session import Session


def progress(session: Session) -> Iterator[Action]:
    """Returns the actions of the session's shot, as iterating over the session does, and shows a bar of the
    package tqdm: `for action in gpuzip.progress(session)`.

    The bar counts time steps, forward and backward; their total is known in advance, except for a shot that began
    without a number of steps. A step counts when the loop asks for the next action.
    """
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("the bar of progress needs the package tqdm: pip install tqdm") from None
    decided, stats = session.summary(), session.stats()
    # A shot that goes on from a restart file begins with steps done.
    done = stats.forward_steps + stats.backward_steps
    total = decided.forward_steps + decided.backward_steps

    def actions() -> Iterator[Action]:
        with tqdm(desc="gpuzip", total=total or None, initial=done, unit="step") as bar:
            for action in session:
                yield action
                if action.type in (FORWARD, BACKWARD):
                    bar.update(abs(action.ts_end - action.ts) + 1)

    return actions()

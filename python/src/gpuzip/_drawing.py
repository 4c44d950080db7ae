"""Drawings of schedules: the time step of the state over the time steps that the code computes."""

import math
from html import escape
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from .actions import BACKWARD, FORWARD, RESTORE, SAVE, Action
from .errors import ArgumentError, Error

# Kind of a line: its colour. Snapshots lie below the other lines.
INKS = {"snapshot": "#e69f00", "forward": "#0072b2", "recompute": "#8cc9ec", "backward": "#009e73"}
X_LABEL = "time steps computed, forward and backward"
Y_LABEL = "time step of the state"
_MOST = 20_000  # lines of a drawing, as in `gpuzip schedule --svg`
_LEFT, _TOP, _WIDTH, _HEIGHT = 70.0, 80.0, 900.0, 360.0

Line = List[float]
"""x1, y1, x2, y2: steps computed and time step at the two ends."""


class Picture(NamedTuple):
    """The lines of a drawing."""

    title: str
    steps: int
    """Time steps of the run."""
    done: int
    """Time steps computed, forward and backward."""
    lines: Dict[str, List[Line]]
    """The lines of each kind of `INKS`."""


def picture(actions: Iterable[Action], name: str, steps: int, snapshots: int, sweeps: int) -> Picture:
    """Draws actions. `name` is that of the algorithm, and `snapshots` the number that it may store at a time."""
    lines: Dict[str, List[Line]] = {kind: [] for kind in INKS}
    stored: Dict[int, Line] = {}  # the line of the snapshot of each stored time step
    last, done, forward_steps = "", 0, 0
    for action in actions:
        if action.type == SAVE:
            stored[action.ts] = [done, action.ts, done, action.ts]
            lines["snapshot"].append(stored[action.ts])
        elif action.type == RESTORE:
            stored[action.ts][2] = done
        elif action.type in (FORWARD, BACKWARD):
            if action.type == FORWARD:
                kind, begin, end = "recompute" if action.recompute else "forward", action.ts - 1, action.ts_end
                forward_steps += end - begin
            else:
                kind, begin, end = "backward", action.ts + 1, action.ts_end
            drawn = lines[kind]
            if kind == last and drawn[-1][3] == begin:
                drawn[-1][2:] = done + abs(end - begin), end
            else:
                drawn.append([done, begin, done + abs(end - begin), end])
            last, done = kind, done + abs(end - begin)
        if sum(map(len, lines.values())) > _MOST:
            raise ArgumentError(f"the drawing of this schedule has more than {_MOST} lines: draw fewer time steps")
    title = f"{name}: {_count(steps, 'time step')}, {_count(snapshots, 'snapshot')}, {_count(forward_steps, 'forward step')}"
    return Picture(title + (f", {sweeps} reverse sweeps" if sweeps > 1 else ""), steps, done, lines)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _ticks(high: int) -> Iterator[int]:
    """Round whole numbers from 0 to `high`, some eight of them."""
    rough = max(1.0, high / 8)
    power = 10 ** math.floor(math.log10(rough))
    step = next(int(factor * power) for factor in (1, 2, 5, 10) if factor * power >= rough)
    return iter(range(0, high + 1, step))


def svg(drawn: Picture) -> str:
    """Returns the drawing as the text of an SVG file."""
    bottom, right, texts = _TOP + _HEIGHT, _LEFT + _WIDTH, []

    def at(x: float, y: float) -> Tuple[float, float]:
        return _LEFT + x / max(1, drawn.done) * _WIDTH, bottom - y / max(1, drawn.steps) * _HEIGHT

    def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 12, turned: str = "") -> None:
        texts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#222222"{turned}>{escape(words)}</text>'
        )

    text(20, 28, drawn.title, "start", 16)
    x = _LEFT
    for kind in ("forward", "recompute", "backward", "snapshot"):
        texts.append(f'<rect x="{x:.1f}" y="46" width="14" height="11" fill="{INKS[kind]}"/>')
        text(x + 19, 56, kind, "start")
        x += 36 + 6.6 * len(kind)
    grid = []
    for tick in _ticks(drawn.done):
        x = at(tick, 0)[0]
        grid.append(f"M{x:.1f} {_TOP}V{bottom + 5}")
        text(x, bottom + 19, f"{tick:,}")
    for tick in _ticks(drawn.steps):
        y = at(0, tick)[1]
        grid.append(f"M{_LEFT - 5} {y:.1f}H{right}")
        text(_LEFT - 9, y + 4, f"{tick:,}", "end")
    text(_LEFT + _WIDTH / 2, bottom + 42, X_LABEL, size=13)
    y = _TOP + _HEIGHT / 2
    text(16, y, Y_LABEL, size=13, turned=f' transform="rotate(-90 16 {y})"')
    paths = [f'<path d="{"".join(grid)}" stroke="#dddddd" fill="none"/>']
    paths.append(f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" stroke="#222222" fill="none"/>')
    for kind, lines in drawn.lines.items():
        ends = [(*at(x1, y1), *at(x2, y2)) for x1, y1, x2, y2 in lines]
        data = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in ends)
        if data:
            paths.append(f'<path d="{data}" stroke="{INKS[kind]}" stroke-width="2" stroke-linecap="round" fill="none"/>')
    width, height = right + 30, bottom + 60
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
            'font-family="Helvetica, Arial, sans-serif">',
            f"<title>{escape(drawn.title)}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            *paths,
            *texts,
            "</svg>\n",
        ]
    )


def axes_of(axes: Any, instead: str) -> Any:
    """Returns `axes`, or new axes of matplotlib. `instead` says what to do without this package."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot
    except ImportError:
        raise ImportError(f"plot() needs the package matplotlib: pip install matplotlib, or {instead}") from None
    return matplotlib.pyplot.subplots(figsize=(9, 4), layout="constrained")[1]


def plot(drawn: Picture, axes: Any) -> Any:
    """Draws into axes of matplotlib, and returns them."""
    axes = axes_of(axes, "call svg(), which returns the text of an SVG file")
    for kind, lines in drawn.lines.items():
        x: List[float] = []
        y: List[float] = []
        for x1, y1, x2, y2 in lines:
            x += [x1, x2, math.nan]  # A gap follows the line.
            y += [y1, y2, math.nan]
        axes.plot(x, y, color=INKS[kind], label=kind, linewidth=1.5, solid_capstyle="round")
    axes.set(title=drawn.title, xlabel=X_LABEL, ylabel=Y_LABEL)
    axes.grid(color="#dddddd")
    axes.set_axisbelow(True)
    axes.legend()
    return axes


class Drawn:
    """Whatever can be drawn as a schedule. Time steps computed run to the right; the lines are the forward run, what
    is computed again, the backward run, and each snapshot from its SAVE to its last RESTORE."""

    __slots__ = ()

    def _picture(self) -> Picture:
        raise NotImplementedError

    def svg(self) -> str:
        """Returns the drawing as the text of an SVG file. More than 20,000 lines are an `ArgumentError`."""
        return svg(self._picture())

    def plot(self, axes: Any = None) -> Any:
        """Draws with matplotlib, into `axes` or into new ones, and returns the axes."""
        return plot(self._picture(), axes)

    def _repr_svg_(self) -> Optional[str]:
        """The drawing in a notebook; without one the notebook shows the text."""
        try:
            return self.svg()
        except Error:
            return None

"""Chooses the inputs of the committed corpora: `fuzz/minimise.py FOLDER TARGET...`, called by
`FUZZ_MINIMISE=1 fuzz/run.sh`.

FOLDER/TARGET/edges is a control file of libFuzzer's merge, run with -set_cover_merge=1 and
-use_counters=0: it has one line `FT i e e ...` for each input i, with the edges of the code that the
input takes. The chosen inputs are copied to FOLDER/TARGET/minimised: first every input that a person
has named, such as an input that once failed, then by a greedy set cover the input that adds the most
edges to its target. At most MOST inputs are chosen for all targets together; left out are inputs that
add the fewest edges.
"""

import heapq
import pathlib
import re
import shutil
import sys

MOST = 300
# Names that libFuzzer gives, or a program that makes many inputs: a hash, or a number at the end.
GIVEN = re.compile(r"[0-9a-f]{40}|.*-[0-9]+")


def inputs(control):
    """Returns a map from the path of each input to its set of edges."""
    lines = control.read_text().splitlines()
    paths = [pathlib.Path(line) for line in lines[2 : 2 + int(lines[0])]]
    fields = (line.split() for line in lines if line.startswith("FT "))
    return {paths[int(number)]: frozenset(map(int, edges)) for _, number, *edges in fields}


def choose(every):
    """Returns for each target the chosen inputs, and the edges that they take."""
    chosen = {target: [] for target in every}
    taken = {target: set() for target in every}
    heap = []
    for target, found in every.items():
        for path, edges in found.items():
            is_named = not GIVEN.fullmatch(path.name)
            heap.append((not is_named, -len(edges), path.stat().st_size, str(path), target))
    heapq.heapify(heap)
    while heap and sum(map(len, chosen.values())) < MOST:
        unnamed, known, size, path, target = heapq.heappop(heap)
        edges = every[target][pathlib.Path(path)]
        new = -len(edges - taken[target])
        if unnamed and new == 0:
            continue
        if unnamed and new != known:  # An input chosen since then takes some of these edges.
            heapq.heappush(heap, (unnamed, new, size, path, target))
            continue
        taken[target] |= edges
        chosen[target].append(path)
    return chosen, taken


def main(folder, targets):
    every = {target: inputs(folder / target / "edges") for target in targets}
    chosen, taken = choose(every)
    for target, found in every.items():
        to = folder / target / "minimised"
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        for path in chosen[target]:
            shutil.copy(path, to)
        edges = len(set().union(*found.values()))
        print(f"{target}: {len(chosen[target])} of {len(found)} inputs, {len(taken[target])} of {edges} edges")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])

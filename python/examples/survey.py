"""A survey whose shots are tasks of Dask, on workers that may die.

    pip install distributed
    python python/examples/survey.py --shots 200 --workers 4 -- --model vp.f32 --n1 81 --n2 201

The options behind `--` are those of the program rtm3d (c-examples/rtm3d). A task runs this program
for one shot, which it commits to the folder. All workers see this folder. If a worker dies, Dask
gives its task to another worker. The last task adds up the shots in the order of their numbers: the
image has the bits of one run of rtm3d with the same options. After a death of the script itself,
the same command goes on from the shots in the folder.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time

import dask
import psutil
from distributed import Client, KilledWorker, LocalCluster, as_completed


def arguments():
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--shots", type=int, default=200)
    add("--folder", default="survey", help="for the images of the shots; all workers see it")
    add("--out", default="image", help="folder for the image")
    add("--rtm3d", default="build/rtm3d", help="the program")
    add("--workers", type=int, default=2, help="how many, each with one shot at a time")
    add("--threads", type=int, default=1, help="of OpenMP, for each worker")
    add("--slurm", action="store_true", help="each worker is a job of Slurm, by dask-jobqueue")
    add("--kill", type=int, default=0, help="number of times that a local worker is killed, at random moments")
    add("options", nargs="*", help="options of rtm3d, behind --")
    o = parser.parse_args()
    for name in ("shots", "workers", "threads"):
        if getattr(o, name) < 1:
            parser.error(f"--{name} {getattr(o, name)}: at least 1")
    if not 0 <= o.kill <= (0 if o.slurm else o.shots // 2):
        parser.error(f"--kill {o.kill}: local workers only, and at most one for two shots")
    if shutil.which(o.rtm3d) is None:
        parser.error(f"--rtm3d {o.rtm3d}: no such program; `make -C c-examples/rtm3d` builds build/rtm3d")
    return o


def start_cluster(workers, threads, slurm):
    # Dask gives a task up when more workers than this have died of it. The default, 3, is few for
    # nodes that are taken away at any time.
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    if slurm:
        from dask_jobqueue import SLURMCluster

        # Memory, account, queue and time of a job are in ~/.config/dask/jobqueue.yaml.
        cluster = SLURMCluster(cores=1, job_cpu=threads)
    else:
        cluster = LocalCluster(n_workers=0, threads_per_worker=1)
    # Unlike scale(), adapt() also replaces workers that do not come back.
    cluster.adapt(minimum=workers, maximum=workers)
    return cluster


def rtm3d(command, threads, directory):
    """Runs the program in a directory and returns what it tells as JSON."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stderr}")
    return json.loads(ended.stdout)


def kill_one(cluster, program):
    """Kills a local worker that computes a shot, and the program, as the death of a node does.
    Returns 1, or 0 if no worker has computed a shot for a minute."""
    time.sleep(random.uniform(0.0, 0.3))
    end = time.time() + 60.0
    while time.time() < end:
        ids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
        for worker in random.sample(ids, len(ids)):
            with contextlib.suppress(psutil.NoSuchProcess):
                worker = psutil.Process(worker)
                programs = [child for child in worker.children() if child.name() == program]
                if programs:
                    worker.kill()
                    for child in programs:
                        child.kill()
                    return 1
        time.sleep(0.01)
    return 0


def main():
    o = arguments()
    job = ["--shots", str(o.shots), "--claim", o.folder, "--out", o.out, "--json"]
    command = [o.rtm3d, *o.options, *job]
    start = time.time()
    # Numbers of completed shots after which a worker is killed.
    doomed = set(random.sample(range(1, o.shots // 2 + 1), o.kill))
    killed = 0
    with start_cluster(o.workers, o.threads, o.slurm) as cluster, Client(cluster) as client:
        # Dask repeats tasks whose worker dies; `retries` is for tasks that fail, as on a full disk.
        run = {"threads": o.threads, "directory": os.getcwd(), "pure": False, "retries": 2}
        shots = [[*command, "--only", str(shot)] for shot in range(1, o.shots + 1)]
        tasks = client.map(rtm3d, shots, **run)
        results = as_completed(tasks)
        del tasks  # Dask computes results that are still held again when their worker dies.
        for completed, task in enumerate(results, start=1):
            task.result()
            if completed in doomed:
                killed += kill_one(cluster, os.path.basename(o.rtm3d))
        # This worker of the survey also computes shots whose files it finds missing or damaged.
        told = client.submit(rtm3d, command, **run).result()
    took = round(time.time() - start, 1)
    print(json.dumps({"seconds": took, "killed": killed, **told}))


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, KilledWorker) as reason:
        sys.exit(f"survey.py: {reason}")

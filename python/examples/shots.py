"""Shots of a survey as tasks of Dask: a configuration goes to the workers, and results come back."""

import array

import gpuzip
from dask.distributed import Client


def shot(number, config):
    """The adjoint of a shot, and what its session has counted."""
    u, adjoint = array.array("d", [0.1 + 0.01 * number]), array.array("d", [1.0])

    def forward(ts, ts_end, flags):
        u[0] += 1e-3 * u[0] * (1.0 - u[0])

    def backward(ts, flags):
        adjoint[0] *= 1.0 + 1e-3 * (1.0 - 2.0 * u[0])

    with gpuzip.Session(u, 1000, config) as session:
        session.run(forward, backward)
        return adjoint[0], session.stats()


if __name__ == "__main__":
    config = gpuzip.Config(checkpointing_algorithm="revolve", checkpointing_snaps=10)
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        results = client.gather(client.map(shot, range(20), config=config))
    print(f"{sum(adjoint for adjoint, _ in results):.12f}", {stats.forward_steps for _, stats in results})

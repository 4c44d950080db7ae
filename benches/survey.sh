#!/bin/sh
# Figures of docs/surveys.md, and more: hours of 20,000 shots on 25 to 400 nodes, predicted by `gpuzip plan`.
# Usage: sh benches/survey.sh [path of gpuzip]
set -eu
gpuzip=${1:-target/release/gpuzip}

# The shot: an acoustic FP32 pair on 600 x 600 x 400 points, 6000 steps.
shot='--steps 6000 --state-bytes 1152000000'
# The node: 4 GPUs with 16 GiB each for snapshots, 384 GiB of host memory and 3 TiB of disk for them together.
node='--ranks-per-node 4 --shots 20000 --device-budget 16G --host-budget 384G --disk-budget 3T --disk-gbs 6,4'
a100='--forward-ms 2.9 --backward-ms 7.2 --link-gbs 25 --d2d-gbs 500'
h200='--forward-ms 0.95 --backward-ms 2.4 --link-gbs 53 --d2d-gbs 1600'
published='--algorithm revolve --adjust --policy lru'

value() { printf '%s' "$1" | sed "s/^{/,/; s/.*,\"$2\":\([0-9.e+-]*\).*/\1/"; }

predict() { "$gpuzip" plan $shot $node "$@" --json | sed 's/"ranked":.*//'; }

# Hours of the survey. $1: ranks, then options.
hours() {
  ranks=$1
  shift
  value "$(predict --ranks "$ranks" "$@")" survey_s | awk '{printf "%.2f", $1 / 3600}'
}

# What a shot takes, over the ideal of the problem.
over() { value "$(predict --ranks 400 "$@")" over_problem_ideal | awk '{printf "%.2f", $1}'; }

nodes() {
  echo "| nodes | GPUs | GPUZIP's Revolve, 4 links | 1 link | best plan, 4 links | 1 link |"
  echo "|---|---|---|---|---|---|"
  for nodes in 25 50 100 200 400; do
    n=$((nodes * 4))
    echo "| $nodes | $n | $(hours $n "$@" --links-per-node 4 $published) | $(hours $n "$@" $published)" \
      "| $(hours $n "$@" --links-per-node 4) | $(hours $n "$@") |"
  done
}

codecs() {
  echo "| codec | raw only | 300 GB/s | 1000 GB/s | 3000 GB/s |"
  echo "|---|---|---|---|---|"
  for ratio in 4 12 30; do
    echo "| ratio $ratio | $(over "$@") | $(over "$@" --ratio $ratio --codec-gbs 300) | $(over "$@" --ratio $ratio --codec-gbs 1000)" \
      "| $(over "$@" --ratio $ratio --codec-gbs 3000) |"
  done
}

echo 'A100, PCIe 4, hours of the survey:'
echo
nodes $a100
echo
echo 'H200, PCIe 5, hours of the survey:'
echo
nodes $h200
echo
echo 'A100 with one link for four GPUs, time of a shot over the ideal of the problem, where a codec is permitted:'
echo
codecs $a100
echo
echo 'H200, the same:'
echo
codecs $h200

#!/bin/sh
# A migration whose snapshots exceed the host budget four times, beside the simulator: `auto` with a disk, over a
# simulated link, in ROUNDS rounds of one shot each. Prints, for each round, the seconds of the shot and of its stall:
# as planned, as the simulator predicts with the costs that the run measured, and as measured; then their medians.
# Usage: sh benches/disk.sh RTM3D GPUZIP FOLDER STEPS [OPTIONS OF RTM3D]; `make bench-disk` calls it. FOLDER is on the disk.
set -eu
rtm3d=$1 gpuzip=$2 folder=$3 steps=$4
shift 4
rounds=${ROUNDS:-7}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# rtm3d computes on one core; copies, the link and the disk take the other.
export OMP_NUM_THREADS=1

image() { sed 's/.*"image_hash": "\([0-9a-f]*\)".*/\1/'; }
number() { sed "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/"; }

run() { "$rtm3d" --json --config "$folder/disk.cfg" --out "$folder/images" "$@" 2> "$folder/said" || { cat "$folder/said" >&2; exit 1; }; }

# Bytes of a state and milliseconds of a step, by which the link is slowed: a transfer takes 8 steps.
printf 'backend = 1\ncheckpointing_algorithm = revolve\ncheckpointing_snaps = 30\ncache_capacity = 4\n' > "$folder/disk.cfg"
first=$(run --tune --shots 1 --steps 500 "$@")
state=$(($(echo "$first" | number h2d_bytes) / $(echo "$first" | number h2d)))
step=$(echo "$first" | number forward_ms)
link=$(awk "BEGIN { printf \"%.0f\", $state / (8 * $step / 1e3) }")
expected=$(run --shots 1 --steps "$steps" "$@" | image)
cat > "$folder/disk.cfg" <<END
backend = 1
checkpointing_algorithm = auto
link_bandwidth = $link
device_budget = $((4 * state))
host_budget = $((30 * state))
disk_budget = $((120 * state))
disk_path = $folder
profile_path = $folder/profile
END
rm -f "$folder/profile"
tuned=$(run --tune --shots 1 --steps "$steps" "$@")
echo "state $state bytes, step $step ms, link $link B/s; planned: $(echo "$tuned" | sed 's/.*"algorithm": "\([a-z-]*\)".*/\1/')," \
  "$(echo "$tuned" | number snapshots) snapshots"
[ "$(echo "$tuned" | image)" = "$expected" ] || { echo "the image differs from that of snapshots in memory" >&2; exit 1; }
echo "the image has the bits of a run with its snapshots in memory"
echo "trace_out = $folder/shot.json" >> "$folder/disk.cfg"

echo "round planned at_run_costs measured stall_planned stall_at_run_costs stall_measured"
: > "$folder/rows"
for round in $(seq "$rounds"); do
  last=$(run --shots 1 --steps "$steps" "$@")
  "$gpuzip" report --json "$folder/shot.json" > "$folder/report"
  row=$round
  for name in makespan_s stall_s; do
    for column in planned at_measured_costs measured; do
      row="$row $(sed "s/.*\"$column\":{\([^}]*\)}.*/\1/; s/.*\"$name\":\([0-9.e+-]*\).*/\1/" "$folder/report")"
    done
  done
  echo "$row" | tee -a "$folder/rows"
done
median() { awk "{ print $1 }" "$folder/rows" | sort -g | awk '{ v[NR] = $1 } END { printf "%.3f", v[int((NR + 1) / 2)] }'; }
echo "to and from the disk in a shot: $(echo "$last" | number disk_bytes) bytes"
echo "medians: measured over predicted at the run's costs: time $(median '$4 / $3'), stall $(median '$7 / $6');" \
  "measured over planned: time $(median '$4 / $2'), stall $(median '$7 / $5')"

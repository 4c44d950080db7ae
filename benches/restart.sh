#!/bin/sh
# What restart files cost, and how long a stop takes: migrations of rtm3d in 3-D whose snapshots are compressed.
# Usage: sh benches/restart.sh RTM3D FOLDER [OPTIONS OF RTM3D]; `make bench-restart` calls it. FOLDER is on the disk.
# PAIRS runs with restart files are paired with runs without; STOPS runs are stopped by SIGTERM at times that SEED draws.
set -eu
rtm3d=$1 folder=$2
shift 2
pairs=${PAIRS:-7} stops=${STOPS:-10} seed=${SEED:-1}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
export OMP_WAIT_POLICY=passive
printf 'checkpointing_algorithm = auto\ndevice_budget = 40M\nhost_budget = 80M\ncompressor = dct\nerror_bound = 1e-3\ncompression_factor = 12\n' \
  > "$folder/restart.cfg"

now() { date +%s.%N; }
run() { "$rtm3d" --json --config "$folder/restart.cfg" --out "$folder/images" "$@" > "$folder/said.json" 2> "$folder/said"; }
must() { run "$@" || { cat "$folder/said" >&2; exit 1; }; }
image() { sed 's/.*"image_hash": "\([0-9a-f]*\)".*/\1/' "$folder/said.json"; }
seconds() { begin=$(now); must "$@"; awk "BEGIN { print $(now) - $begin }"; }
median() { sort -g | awk '{ v[NR] = $1 } END { printf "%.4f", v[int((NR + 1) / 2)] }'; }

# $1: a name; then options. Seconds with restart files over seconds without, run right before.
overhead() {
  name=$1
  shift
  : > "$folder/ratios"
  for pair in $(seq "$pairs"); do
    without=$(seconds "$@")
    rm -rf "$folder/files"
    with=$(seconds "$@" --restart "$folder/files")
    ratio=$(awk "BEGIN { printf \"%.4f\", $with / $without }")
    echo "$ratio" >> "$folder/ratios"
    echo "$name: $without s without restart files, $with s with them: $ratio"
  done
  echo "$name: median of $pairs pairs $(median < "$folder/ratios")"
}

overhead "8 shots" "$@" --shots 8
overhead "one shot" "$@" --shots 1 --steps 2400

# The time from the signal to the end of the process, and the image of the run that goes on.
must "$@" --shots 2
expected=$(image)
whole=$(seconds "$@" --shots 2 --restart "$folder/none")
: > "$folder/times"
for stop in $(seq "$stops"); do
  rm -rf "$folder/files"
  run "$@" --shots 2 --restart "$folder/files" &
  job=$!
  sleep "$(awk "BEGIN { srand($seed * 1000 + $stop); printf \"%.3f\", $whole * (0.1 + 0.7 * rand()) }")"
  begin=$(now)
  pkill -TERM -P "$job" || true
  status=0
  wait "$job" || status=$?
  took=$(awk "BEGIN { printf \"%.3f\", $(now) - $begin }")
  size=$(du -sk "$folder/files" | cut -f1)
  must "$@" --shots 2 --restart "$folder/files"
  echo "$took" >> "$folder/times"
  same=differs
  [ "$(image)" = "$expected" ] && same="has the same bits"
  echo "SIGTERM: $took s to the end, exit status $status, $size KiB of restart files; the image of the run that went on $same"
done
echo "SIGTERM: median $(median < "$folder/times") s, longest $(sort -g "$folder/times" | tail -n 1) s"

#!/bin/sh
# fields.sh FOLDER [MARMOUSI2]: writes real snapshots into FOLDER, to measure codecs on.
#
# 256^3: the built-in salt dome of 216^3 cells inside 16 cells of sponge and 4 of zeros, the state as rtm3d checkpoints it, both time
# levels, when the waves fill half of it (step 900) and nearly all of it (step 1500). 21 Hz at 10 m and 1700 m/s are 8.1 points per
# shortest wavelength at the peak frequency and 3.2 at 2.5 times it, where a Ricker wavelet ends: what rtm3d takes by default, and no
# more than users can afford. The model is not smoothed, so there are reflections. About half a minute on 2 cores, 270 MB.
#
# 406 x 1756: the Marmousi2 model if its file is given (1700 x 350 cells of 10 m, raw FP32, depth fastest), at 18.7 Hz: 8.0 and 3.2 points again.
#
# Environment: RTM3D, the program (default build/rtm3d).
set -eu

[ $# -ge 1 ] || { echo "usage: $0 FOLDER [MARMOUSI2]" >&2; exit 2; }
rtm3d=${RTM3D:-$(dirname "$0")/../build/rtm3d}
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

"$rtm3d" --n1 216 --n2 216 --n3 216 --dx 10 --border 16 --freq 21 --smooth 0.3 --shots 1 --steps 1500 \
    --dump-snapshots 900,1500 --out "$1"
if [ $# -ge 2 ]; then
    "$rtm3d" --model "$2" --n1 350 --n2 1700 --n3 1 --dx 10 --border 24 --freq 18.7 --smooth 0.3 --shots 1 --steps 4000 \
        --dump-snapshots 2000,4000 --out "$1"
fi

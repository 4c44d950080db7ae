# gpuzip: `make demo` migrates a built-in model and shows what checkpointing cost; `make test` runs
# the tests; `make help` lists the targets. The help text of a target stands behind two number
# signs on the target's line.

CARGO ?= cargo
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
RTM3D  = $(MAKE) -s -C c-examples/rtm3d GPUZIP_LIB=$(TARGET)/release

all: build

help: ## lists these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s%s\n", $$1, $$2 }' Makefile

docs: ## rewrites the tables and pictures of docs/ that are generated
	GPUZIP_UPDATE_DOCS=1 $(CARGO) test --test docs -- the_configuration_page the_limitations_page_has
	GPUZIP_UPDATE_DOCS=1 $(CARGO) test --test foreign -- every_block_compiles

site: ## makes build/site, the documentation with search and references, and checks its links (needs Python and pip)
	@PYTHON=$(PYTHON) sh docs/site/make.sh build/site

build: ## builds the library and the command `gpuzip` (release)
	$(CARGO) build --release -p gpuzip -p gpuzip-cli

# The installed folder PREFIX may be moved later. install/install.sh documents LIBDIR, INCLUDEDIR,
# BINDIR, DESTDIR and FC. Without cargo on the PATH (as under `make build && sudo make install`),
# `make install` installs the files that `make build` has left in the folder TARGET/release.
PREFIX ?= /usr/local
ifeq ($(origin FC),default)
FC = gfortran
endif
INSTALL = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' BINDIR='$(BINDIR)' DESTDIR='$(DESTDIR)' FC='$(FC)' sh install/install.sh
install: ## installs into PREFIX (default /usr/local); also LIBDIR, INCLUDEDIR, BINDIR, DESTDIR, FC
	@if command -v $(CARGO) >/dev/null; then $(MAKE) build; fi
	@$(INSTALL) install '$(TARGET)/release'

uninstall: ## removes what `make install` put into PREFIX
	@$(INSTALL) uninstall

demo: build ## migrates a built-in model and compares the image with a run that keeps every state (1 minute)
	$(RTM3D) demo

test: ## tests the library and the command; needs Rust and a C compiler only (8 minutes)
	$(CARGO) test

# The test programs beside those of `make test`. As root on Debian or Ubuntu, the missing programs that
# the tests call are installed first with apt-get; SKIP_DEPS=1 installs nothing. A test whose programs
# are missing is skipped by name.
REST = --test kernels --test process --test foreign --test examples
test-all: deps build ## runs the tests that `make test` leaves: other languages, MPI, PTX, kills (about 25 minutes)
	$(CARGO) test $(REST)
	$(CARGO) test -p gpuzip-fuzz -p gpuzip-cuda-emu

test-long: ## runs all tests with the counts that docs/evidence.md states (hours)
	sh tests/deps.sh long
	$(MAKE) build
	GPUZIP_TEST_LONG=1 $(CARGO) test
	GPUZIP_TEST_LONG=1 $(CARGO) test $(REST)
	GPUZIP_TEST_LONG=1 $(CARGO) test -p gpuzip-fuzz -p gpuzip-cuda-emu
	CARGO=$(CARGO) sh tests/on_ptx.sh

# Coverage-guided fuzzing of parsers, codec streams and calls, FUZZ_SECONDS seconds per target;
# fuzz/run.sh chooses the toolchain and writes findings and grown corpora to build/fuzz.
# `cargo test -p gpuzip-fuzz` replays the committed corpora and seeded mutations of the corpora with
# any toolchain.
FUZZ_SECONDS ?= 600
fuzz: ## fuzzes parsers, codec streams and calls, FUZZ_SECONDS (default 600) seconds per target
	FUZZ_SECONDS=$(FUZZ_SECONDS) CARGO=$(CARGO) sh fuzz/run.sh $(FUZZ_TARGETS)

deps: ## installs with apt-get, as root, the programs that the tests call
	sh tests/deps.sh

bench: build ## measures schedules, sessions, the planner and the propagator of rtm3d
	$(CARGO) bench --bench schedule
	$(CARGO) bench --bench session
	$(CARGO) bench --bench planner
	$(RTM3D) bench

# The snapshots are taken when the wave fills half of the volume and when it fills nearly all of it.
# Where MARMOUSI2 names the file of that model, 2-D snapshots of it are added.
FIELDS ?= build/fields
bench-fields: build ## makes 256^3 snapshots of rtm3d in the folder FIELDS, to measure codecs on
	$(RTM3D)
	sh benches/fields.sh $(FIELDS) $(MARMOUSI2)

# Beside gpuzip's codecs, SZ3, SPERR, zfp, PFPL and zstd are measured where they are found: `python3 benches/peers.py --help`.
bench-codecs: bench-fields ## measures every codec, and its peers, on bench-fields' and the folder SNAPSHOTS' arrays
	PYTHON=$(PYTHON) sh benches/codecs.sh $(FIELDS)
	$(if $(SNAPSHOTS),PYTHON=$(PYTHON) sh benches/codecs.sh $(SNAPSHOTS))

# Runs rtm3d over a simulated link with `auto` and with a grid of configurations made by hand, and
# draws the run times into build/grid.svg. GRID: the number of time steps (3751,30: with 30 snapshots on
# the host), then rtm3d's options.
GRID ?= 3751 --n1 120 --n2 400 --n3 1 --border 40
bench-grid: build ## compares `auto` with 70 configurations made by hand over a simulated link (20 minutes)
	$(RTM3D)
	$(CARGO) bench -p gpuzip-cli --bench grid -- $(abspath build)/rtm3d $(abspath build)/grid.svg $(GRID)

# A migration whose snapshots exceed the host budget four times, with the rest on the disk of the folder
# DISK, beside the simulator. DISK_CASE: the number of time steps, then rtm3d's options.
DISK ?= build/disk
DISK_CASE ?= 3751 --n1 120 --n2 400 --n3 1 --border 40
bench-disk: build ## compares a migration with snapshots on disk with the simulator (1 minute)
	$(RTM3D)
	sh benches/disk.sh build/rtm3d $(TARGET)/release/gpuzip $(DISK) $(DISK_CASE)

# What restart files cost, and how long a stop takes. RESTART_CASE: rtm3d's options.
RESTART_CASE ?= --steps 480
bench-restart: build ## measures the overhead of restart files and the time of a stop (15 minutes)
	$(RTM3D)
	sh benches/restart.sh build/rtm3d $(DISK) $(RESTART_CASE)

# The frameworks and gpuzip are packages of PYTHON; those that are missing are skipped by name.
# ADAPTERS: names of files in python/benches/adapters; by default all.
PYTHON ?= python3
bench-adapters: ## compares the Python adapters with what PyTorch, JAX, Devito and PyRevolve offer (20 minutes)
	$(PYTHON) python/benches/adapters.py $(ADAPTERS)

bench-jax: ## draws time over memory of gradients in JAX into build/jax-curve.svg (40 minutes)
	@mkdir -p build
	$(PYTHON) python/benches/jax_curve.py --plot build/jax-curve.svg

header: ## rewrites include/gpuzip.h and what is generated from it for Fortran and Python
	GPUZIP_UPDATE_HEADER=1 $(CARGO) test --test abi the_header_is_the_generated_one
	GPUZIP_UPDATE_HEADER=1 $(CARGO) test --test foreign the_module_follows_the_header
	GPUZIP_UPDATE_HEADER=1 $(CARGO) test --test foreign the_tables_follow_the_header

counts: ## rewrites benches/results/kernel-counts.txt, exact counts of kernels and driver calls, and roofline.md
	GPUZIP_UPDATE_COUNTS=1 $(CARGO) test --test kernels -- no_figure the_quality
	$(MAKE) -s roofline

roofline: ## rewrites benches/results/roofline.md, speeds of kernels that are predicted from their counts
	python3 benches/roofline.py

end-to-end: build ## rewrites benches/results/end-to-end.md, shots on GPUs predicted from roofline.md and played (40 minutes)
	GPUZIP_UPDATE_SESSIONS=1 $(CARGO) test --test examples end_to_end::
	python3 benches/end_to_end.py $(TARGET)/release/gpuzip

# The library may add to the interface that abi/ records, and change nothing else in it;
# tests/foreign/recorded_abi.rs compares the two.
abi: ## rewrites abi/, the recorded interface that the library may only add to (needs abidw)
	GPUZIP_UPDATE_ABI=1 $(CARGO) test --test foreign -- the_library_has constants_keep

lint: ## checks the format and runs clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy $(REST) -- -D warnings

# A machine without a GPU can build the bundle; `./run` in the bundle's folder runs it on a machine
# with a GPU and leaves a summary and the rest in the folder `results`.
gpu-bundle: build ## packs tests and benchmarks for a machine with a GPU into build/gpu-bundle
	sh gpu-bundle/make.sh build/gpu-bundle $(TARGET) "$(CARGO)"

# packaging/release.sh makes all files of a release: docs/install.md.
dist: ## makes build/dist: sources with all crates; binaries and wheels for x86_64 and aarch64 where zig is installed
	CARGO=$(CARGO) sh packaging/dist.sh
	CARGO=$(CARGO) sh packaging/binaries.sh --if-possible build/dist x86_64 aarch64

clean: ## removes target and build
	$(CARGO) clean
	rm -rf build

.PHONY: all help docs site build install uninstall demo test test-all test-long fuzz deps bench bench-fields bench-codecs bench-grid bench-adapters bench-jax header counts roofline end-to-end abi lint gpu-bundle dist clean

# gpuzip: `make demo` migrates a built-in model and shows what checkpointing cost; `make test` runs everything; `make help` lists the targets.
# `make help` prints what stands behind two number signs on the line of a target.

CARGO ?= cargo
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
RTM3D  = $(MAKE) -s -C c-examples/rtm3d GPUZIP_LIB=$(TARGET)/release

all: build

help: ## lists these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s%s\n", $$1, $$2 }' Makefile

docs: ## rewrites the tables of docs/ that follow from the sources
	GPUZIP_UPDATE_DOCS=1 $(CARGO) test --test docs -- the_configuration_page the_api_page_has

build: ## builds the library and the command `gpuzip` (release)
	$(CARGO) build --release --workspace

# Into PREFIX, which may be moved later; install/install.sh says what LIBDIR, INCLUDEDIR, BINDIR, DESTDIR and FC do. Where there is no cargo
# (`make build && sudo make install`), what is built is installed.
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

# About a minute on 2 cores: builds, migrates, compares with a run that keeps every state.
demo: build ## migrates a built-in model and compares the image with a run that keeps every state (1 minute)
	$(RTM3D) demo

# First installs with apt what the tests need and the machine lacks, if run as root on Debian or Ubuntu; SKIP_DEPS=1 installs
# nothing. Tests whose programs are missing are skipped and named.
test: deps build ## runs all tests; SKIP_DEPS=1 installs nothing with apt-get
	$(CARGO) test --workspace

# The full matrices, real models included.
test-long: deps build ## runs all tests with the counts that docs/environment.md states (hours)
	GPUZIP_TEST_LONG=1 $(CARGO) test --workspace

# Coverage-guided fuzzing of parsers, codec streams and calls, FUZZ_SECONDS per target, with the best toolchain that is installed; findings and
# grown corpora go to build/fuzz. `cargo test -p gpuzip-fuzz` replays the committed corpora and seeded mutations of them with any toolchain.
FUZZ_SECONDS ?= 600
fuzz: ## fuzzes parsers, streams and calls, FUZZ_SECONDS (600) per target
	FUZZ_SECONDS=$(FUZZ_SECONDS) CARGO=$(CARGO) sh fuzz/run.sh $(FUZZ_TARGETS)

deps: ## installs with apt-get, as root, the programs that the tests call
	sh tests/deps.sh

bench: build ## measures schedules, sessions, the planner and the propagator of rtm3d
	$(CARGO) bench --bench schedule
	$(CARGO) bench --bench session
	$(CARGO) bench --bench planner
	$(RTM3D) bench

# Real snapshots to measure codecs on, into the folder FIELDS: 256^3, half filled and filled; and 2-D ones where MARMOUSI2 names that model.
FIELDS ?= build/fields
bench-fields: build ## makes 256^3 snapshots of rtm3d in the folder FIELDS, to measure codecs on
	$(RTM3D)
	sh benches/fields.sh $(FIELDS) $(MARMOUSI2)

# What every codec makes of them, and of the arrays in the folder SNAPSHOTS if that is given.
bench-codecs: bench-fields ## measures every codec on these snapshots, and on those in the folder SNAPSHOTS
	sh benches/codecs.sh $(FIELDS)
	$(if $(SNAPSHOTS),sh benches/codecs.sh $(SNAPSHOTS))

# `auto` beside a grid of configurations made by hand, rtm3d over a simulated link: some twenty minutes, and a drawing. GRID: steps and rtm3d's options.
GRID ?= 3751 --n1 120 --n2 400 --n3 1 --border 40
bench-grid: build ## compares `auto` with 70 configurations made by hand over a simulated link (20 minutes)
	$(RTM3D)
	$(CARGO) bench -p gpuzip-cli --bench grid -- $(abspath build)/rtm3d $(abspath build)/grid.svg $(GRID)

# Rewrites include/gpuzip.h from src/capi/, and what fortran/gpuzip.f90 has from it.
header: ## rewrites include/gpuzip.h, and what fortran/gpuzip.f90 has from it, from src/capi
	GPUZIP_UPDATE_HEADER=1 $(CARGO) test --test header the_header_is_the_generated_one
	GPUZIP_UPDATE_HEADER=1 $(CARGO) test --test fortran the_module_follows_the_header

# Rewrites abi/, the baseline that the library may add to and nothing else; tests/abi.rs compares. Needs abidw.
abi: ## rewrites abi/, the recorded interface that the library may only add to (needs abidw)
	GPUZIP_UPDATE_ABI=1 $(CARGO) test --test abi -- the_library_has constants_keep

lint: ## checks the format and runs clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# build/gpu-bundle: all that a machine with a GPU needs to test and to measure, built on one without. There: ./run.sh OUT
gpu-bundle: build ## packs what a machine with a GPU needs to test and to measure, into build/gpu-bundle
	sh gpu-bundle/make.sh build/gpu-bundle $(TARGET) "$(CARGO)"

clean: ## removes target and build
	$(CARGO) clean
	rm -rf build

.PHONY: all help docs build install uninstall demo test test-long fuzz deps bench bench-fields bench-codecs bench-grid header abi lint gpu-bundle clean

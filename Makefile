ifeq ($(filter oneshell,$(.FEATURES)),)
$(error this Makefile needs GNU Make 3.82 or newer)
endif
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.NOTPARALLEL: # make setup test
MAKEFLAGS += --no-print-directory

PKG ?= ./...# packages of the root module, for race, stress and fuzz
RUN ?= .# pattern of test names, for stress
COUNT ?= 20# repetitions, for stress
# A number of executions and no time, after which Go 1.26 may report a failure that is none (https://go.dev/issue/75804).
FUZZTIME ?= 10000x# executions of each fuzz target
FUZZ ?= .# pattern of their names
SEEDS ?= 100000# schedules, for sim and proof
TESTFLAGS ?= $(RACE) -count=1 -timeout 15m# of go test, for integration
DURATION ?= 60s# of a run, for chaos
SEED ?= 1# of its faults
WRITE ?= # 1 writes the file instead of comparing it, for trace
CHAOS ?= # further flags of chaos, such as -break all, -weaken all, or -procedures

# Modules with code of the project, the root first. tools/ only pins versions.
NESTED := $(patsubst %/go.mod,%,$(filter-out tools/go.mod,$(wildcard */go.mod adapters/*/go.mod)))
MODULES := . $(NESTED)
TOOL := tool -modfile=$(CURDIR)/tools/go.mod

# Without a C compiler there is no race detector.
RACE = $(shell tools/setup.sh has compiler && echo -race)

.PHONY: help
help: ## List the targets
	@echo 'make TARGET [VARIABLE=value]'
	awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	echo 'Variables:'
	awk -F ' \\?= |# ' '/^[A-Z]+ \?= / {printf "  %-12s %s (%s)\n", $$1, $$3, $$2}' $(MAKEFILE_LIST)

.PHONY: fmt
fmt: ## Format all modules
	@for module in $(MODULES); do go -C $$module $(TOOL) golangci-lint fmt; done

.PHONY: map
map: ## Print an order of the files of each package of the core, and which uses between them run upward
	@go run ./internal/dev/layers ./redlock ./internal/engine ./internal/lock ./internal/form ./internal/quorum ./internal/wire ./internal/node

.PHONY: lint
lint: ## Run the linters of .golangci.yml on all modules
	@linter=$$(go $(TOOL) -n golangci-lint)
	export GOFLAGS="$${GOFLAGS-} $(RACE)" # so that the tests need not compile everything once more
	for module in $(MODULES); do
		echo "lint $$module"
		(cd $$module && $$linter run --allow-parallel-runners ./...)
	done

.PHONY: setup
setup: ## Install what the tests need and is missing, or say how
	@tools/setup.sh

.PHONY: test
test: ## Everything that a change must pass: tests and benchmarks of all modules, with the race detector
	@export QUORUMLOCK_REDIS_IMAGE=$$(integration/image.sh || true)
	left_out=$$(tools/setup.sh left-out) # which fails in CI, before the tests start
	go run ./internal/dev/gate $(if $(RACE),,-race=false) $(MODULES)
	[[ -z $$left_out ]] || echo "$$left_out"

.PHONY: bare
bare: ## Run the commands of the README on a bare Debian, without and with make setup: needs Linux, Docker and debootstrap
	@tools/bare.sh

.PHONY: api
api: ## Write the new names of the released modules to internal/dev/api/next.txt, after a change that is meant
	@go test $(RACE) -count=1 -run TestAPI ./internal/dev/api -update

.PHONY: race
race: ## Test the root module with the race detector: no Docker needed
	@go test -race $(PKG)

.PHONY: stress
stress: ## Look for flaky tests: repeat them on 1, 2 and 4 CPUs
	@go test $(RACE) -failfast -cpu 1,2,4 -count $(COUNT) -run '$(RUN)' -timeout 60m $(PKG)

.PHONY: fuzz
fuzz: ## Run every fuzz target for a short time
	@go list -f '{{.ImportPath}} {{.Dir}}' $(PKG) | while read -r package dir; do
		{ grep -ohs '^func Fuzz\w*' "$$dir"/*_test.go | grep -E '$(FUZZ)' || true; } | while read -r _ target; do
			echo "fuzz $$target of $$package"
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$$package" </dev/null || {
				code=$$?
				find . -path "*/testdata/fuzz/$$target/*" -mmin -1 -exec head -c 1000 {} +
				exit $$code
			}
		done
	done

.PHONY: sim
sim: ## Run the protocol through simulated schedules, from a random seed on
	@go run ./internal/dev/sim/prove -seeds $(SEEDS)

.PHONY: proof
proof: ## The same from seed 1 on, and with every rule weakened in its turn; write docs/proof.md and its list
	@go run ./internal/dev/sim/prove -seeds $(SEEDS) -write

.PHONY: trace
trace: ## Compare what happens in 2,000 schedules with internal/dev/sim/testdata/traces.txt; WRITE=1 writes that, after a change of a rule
	@go test -count=1 -timeout 15m -run TestDigest ./internal/dev/sim -all $(if $(WRITE),-update)

.PHONY: paths
paths: ## Write docs/paths.md: the functions that a call goes through
	@go run ./internal/dev/paths

.PHONY: bench
bench: ## Compare with other lock libraries, for minutes on an idle machine, and write docs/benchmarks.md
	@go -C bench run ./cmd/compare -docs ../docs

.PHONY: integration
integration: ## Run the integration tests, also on Redis containers: needs Docker
	@image=$$(integration/image.sh)
	QUORUMLOCK_REDIS_IMAGE=$$image go -C integration test $(TESTFLAGS) ./...

.PHONY: chaos
chaos: ## Let clients take locks while servers, networks and clients fail, and check what they have seen: needs Linux, Redis and PostgreSQL
	@go -C chaos run . -duration $(DURATION) -seed $(SEED) $(CHAOS)

.PHONY: soak
soak: ## The same for hours (DURATION=4h), without an end of clients: what they need has to stay flat
	@$(MAKE) chaos CHAOS='-soak $(CHAOS)'

.PHONY: screenshots
screenshots: ## Take the pictures of the page for docs/tool.md: needs Chromium
	@go -C integration test -count=1 -run TestPage_Screenshots ./page -screenshots $(CURDIR)/docs

.PHONY: figures
figures: ## Measure the figures of dashboard.json for docs/telemetry.md: needs Prometheus
	@go -C promredlock test -count=1 -run TestAlertsAndDashboard . -figures $(CURDIR)/docs/telemetry.md

.PHONY: image
image: ## Get or make the Redis image for the integration tests, and print its name
	@integration/image.sh

.PHONY: dist
dist: ## Package the tool, as of the commit HEAD, in dist/: archives, deb, rpm, SBOMs, checksums, and what an image is made of
	@packaging/build.sh dist

.PHONY: distcheck
distcheck: ## Check dist/: install the package in a container, run the image: needs Docker, debootstrap and rpm
	@packaging/check.sh dist

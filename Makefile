# deltad: what one types. `make help` lists the targets.
#
# Nothing but Go is needed for demo, build and unit. test and lint build their
# tools from the versions pinned in .ci/tools, once, into .cache/bin.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .cache/bin
MODULES := . bench e2e
FUZZTIME ?= 5s
BENCH ?= .
FRESH ?= 10m

# No version control stamps: a checkout that another user owns must build too.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/deltad
	go build -o bin/deltad ./cmd/deltad

.PHONY: demo
demo: build ## a live index on made-up data, everything embedded; Ctrl-C ends it
	bin/deltad demo

.PHONY: unit
unit: ## the fast tests: nothing but Go is needed
	go test ./...

# The full test command. It installs PostgreSQL if there is none, starts it and
# two S3 servers, and runs every test of every module under the race detector.
# A skipped test fails it. The raw output is kept in .cache/test.json. Some are
# too long for that detector and run without it first: the large scenarios of
# the protocol model, 1,000 cases of each law for each combine fn and type, the whole quarter of flights (deltas alone, and over a full
# index), two days of ticks, and the 2,000 histories of the oracle, of which
# fewer run under it. So does the soak, because the detector's memory grows.
.PHONY: test
test: tools-test ## all tests, on a real Postgres and two real S3 servers
	go test -count=1 ./sink/model
	LAW_CASES=1000 go test -count=1 -run TestEveryBuiltinKeepsTheLaws ./microbatch/combine
	cd e2e && go test -count=1 -timeout 20m -run 'TestQuarter|TestB38DayOfTicks' ./flights ./crash
	cd e2e && go test -count=1 -tags integration ./soak
	cd e2e && ORACLE_HISTORIES=2000 go test -count=1 -timeout 30m ./oracle
	$(BIN)/withservers -bin $(BIN) \
	  $(BIN)/testreport -modules $(subst $() $(),$(comma),$(MODULES)) -log .cache/test.json -- \
	    -race -tags integration -count=1 -timeout 20m ./...

.PHONY: lint
lint: tools-lint ## golangci-lint, go vet, gofmt and the state of go.mod, for every module
	.ci/lint $(MODULES)

.PHONY: bench
bench: tools-test ## measure against DuckDB, and freshness on a real S3 server for FRESH (default 10m); writes docs/performance.md
	$(BIN)/withservers -bin $(BIN) env DELTAD_FRESHNESS_FOR=$(FRESH) DELTAD_FRESHNESS_FILE=$(CURDIR)/.cache/freshness.json \
	  go -C e2e test -tags integration -count=1 -timeout 60m -run TestFreshness ./acceptance
	cd bench && go run ./cmd/tickbench -freshness ../.cache/freshness.json -o ../docs/performance.md

.PHONY: microbench
microbench: ## benchmarks of single pieces; BENCH=regexp selects
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...
	cd bench && go test -run '^$$' -bench '$(BENCH)' ./...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 5s) each, side by side
	.ci/fuzz $(FUZZTIME)

.PHONY: tidy
tidy: ## go mod tidy in every module
	for m in $(MODULES); do (cd $$m && go mod tidy); done

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .cache

# --- tools -------------------------------------------------------------------

comma := ,

.PHONY: tools-test
tools-test:
	.ci/postgres
	.ci/browser
	.ci/emulator
	.ci/tool versitygw github.com/versity/versitygw/cmd/versitygw
	.ci/tool seaweedfs github.com/seaweedfs/seaweedfs/weed
	go build -C e2e -o ../$(BIN)/ ./cmd/withservers ./cmd/testreport

.PHONY: tools-lint
tools-lint:
	.ci/tool lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

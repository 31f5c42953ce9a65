# deltad: what one types. `make help` lists the targets.
#
# Nothing but Go is needed for demo, build and unit. test and lint build their
# tools from the versions pinned in .ci/tools, once, into .cache/bin.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .cache/bin
MODULES := . bench e2e
FUZZTIME ?= 60s
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

# The full test command. It installs what it needs of Debian where that is missing
# (see .ci), starts PostgreSQL and two S3 servers, and runs three steps against
# them, in one report: every test of every module under the race detector, and
# before that, without it, what takes too long for it, of which a part runs under
# it too:
#
#   - the large scenarios of the protocol model; 1,000 cases of each law for each
#     combine fn and type;
#   - the 2,000 histories of the oracle; the whole quarter of flights, with deltas
#     alone and over a full index, and two weeks of it on servers; two days of
#     ticks; the thousand steps of the soak, which compares resident memory.
#
# A skipped test fails it, and a step that runs no test. The raw output is kept in
# .cache/test.json. lint vets all of it, so no step does. Tests of servers mostly
# wait: three packages at a time keep two processors busy.
LONG := TestHistories|TestQuarter|TestServers|TestB38DayOfTicks|TestNothingGrows
.PHONY: test
test: tools-test ## all tests, on a real Postgres and two real S3 servers
	$(BIN)/withservers -bin $(BIN) $(BIN)/testreport -log .cache/test.json \
	  LAW_CASES=1000 . -vet=off -run 'TestEveryBuiltinKeepsTheLaws|TestProtocol|TestMistakesAreCaught' ./microbatch/combine ./sink/model -- \
	  ORACLE_HISTORIES=2000 e2e -vet=off -tags integration -timeout 30m -run '$(LONG)' ./oracle ./flights ./crash ./soak -- \
	  $(subst $() $(),$(comma),$(MODULES)) -vet=off -race -p 3 -tags integration -timeout 20m ./...

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
fuzz: ## every fuzz target for FUZZTIME (default 60s) each, side by side
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

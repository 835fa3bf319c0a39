SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help screenshots release tinygo plugins languages check lint format hook test test-all test-busy bench soak load sizing mutants unit race plain others modules tidy rebuild deps npm chart site fips upgrade clean

PLUGINS := $(patsubst %/main.go,%,$(sort $(wildcard plugins/*/main.go)))
EXAMPLES := $(sort $(shell find examples -name go.mod -printf "%h\n" 2>/dev/null))
GUESTS   := server/bench/guest server/bench/peer
# The two modules of Keywright.
MAIN    := . server
# The test modules. Each has a go.mod of its own, so that its dependencies stay out of those two.
MODULES := $(sort $(shell find test examples server/test server/bench host/internal/signing/wycheproof tools/release tools/site -name go.mod -not -path '*/node_modules/*' -not -path '*/testdata/*' -printf '%h\n' 2>/dev/null))
NPM     := $(sort $(shell find test server/test examples tools/site -name package-lock.json -not -path '*/node_modules/*' -printf '%h\n' 2>/dev/null))
LINT    := .build/lint-$(shell cat tools/lint/go.mod tools/lint/go.sum | cksum | cut -d' ' -f1)
# The Debian packages that server/bench compares Keywright with, or measures it on.
MEASURED := caddy haproxy nginx postgresql
# The time limit of a package's tests. It stops tests that hang, and is long enough for slow machines.
HANGS   := 60m
# The workspace of all modules, for lint.
WORK    := $(CURDIR)/.build/go.work
GREMLINS := .build/gremlins-$(shell cat tools/gremlins/go.mod tools/gremlins/go.sum | cksum | cut -d' ' -f1)
# What make chart runs. .build keeps each version.
KUBERNETES := .build/kubernetes-$(shell cat tools/kubernetes/go.mod tools/kubernetes/go.sum | cksum | cut -d' ' -f1)
# The files of a module with tests that the race detector leaves out, because it would take minutes for them.
WITHOUT_RACE := grep -rl --include='*_test.go' --exclude-dir=server --exclude-dir=node_modules '^//go:build !race' .
# The packages of a module whose code or tests start goroutines, serve HTTP, or have locks. The others are tested without the race detector,
# which takes minutes.
CONCURRENT := for dir in $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | grep -v '/test/'); do \
	if grep -qE '\bgo (func|[a-z][A-Za-z.]*\()|\.Go\(|\bsync\.|\batomic\.|httptest\.New' $$dir/*.go; then echo ".$${dir\#$$PWD}"; fi; done
# The test of package scaffold that looks for the sources, and so needs their paths.
WITH_PATHS := -trimpath=false ./internal/registry/scaffold
# Tests are not vetted before they run: lint does that, for all modules.
TEST := go test -vet=off -timeout $(HANGS)
# With the race detector, a program waits at its end for one second unless told otherwise.
export GORACE ?= atexit_sleep_ms=50
# All is compiled as the tests compile what they run, so that each package is compiled once, and once more with the race detector.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
SOURCES := find . -name '*.go' -not -path '*/.*' -not -path '*/node_modules/*'

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

tinygo: ## get TinyGo, unless one that is new enough is on PATH
	@tools/debian $$(go run ./tools/plugin packages)
	@go run ./tools/plugin tinygo

plugins: tinygo ## compile the plugins and examples into DIR/NAME.wasm
	go run ./tools/plugin build $(PLUGINS) $(EXAMPLES)
	go run ./tools/plugin build -guest $(GUESTS)

languages: npm ## compile the examples in C, AssemblyScript and Rust, and write the constants of their SDKs
	@tools/debian clang-19 lld-19 rustc libstd-rust-dev-wasm32 lld-14
	go generate ./tools/constants
	cd examples/acme_hmac_c && clang-19 --config=../../sdk/c/keywright.cfg -o acme_hmac_c.wasm acme_hmac.c && chmod 644 acme_hmac_c.wasm
	cd examples/acme_hmac_as && npm run build
	cd examples/acme_hmac_rust && /usr/bin/rustc @../../sdk/rust/keywright.args -o acme_hmac_rust.wasm acme_hmac.rs && chmod 644 acme_hmac_rust.wasm

test: ## lint, and the tests of both modules without the race detector: what to run while developing
	@$(MAKE) lint & lint=$$!; $(MAKE) unit || { wait $$lint; exit 1; }; wait $$lint

test-all: ## all tests and checks: those of make test, with the race detector, and with the servers, browsers and languages of others
	@# Two at a time: one package after the other leaves processors idle.
	@$(MAKE) lint & lint=$$!; $(MAKE) deps || { wait $$lint; exit 1; }; $(MAKE) race & race=$$!; failed=0; \
	wait $$lint || failed=1; $(MAKE) plain tidy rebuild others modules || failed=1; wait $$race || failed=1; exit $$failed

test-busy: ## make test-all beside four busy loops, as on a slow machine
	@loops=; for n in 1 2 3 4; do (while :; do :; done) & loops="$$loops $$!"; done; \
	trap 'kill $$loops' EXIT; GOFLAGS=-count=1 $(MAKE) test-all

bench: ## measure against others and against the goals, or ROWS='^jwt' only; docs/benchmarks.md says how
	@tools/debian $(MEASURED)
	cd server/bench && go test -count=1 -timeout 0 -v -run 'TestGoals$$' . -rounds 10 -slice 300ms -articles 1000000 -rows '$(ROWS)'

soak: deps ## 1,000 rounds of faults at nodes with one store of state, and its size: an hour, or ROUNDS=100, or SEED=2
	cd server/test/nodes && go test -count=1 -timeout 0 -v -run 'TestFaults$$|TestSizeOfGrants$$' . -rounds $(or $(ROUNDS),1000) -seed $(or $(SEED),1) -users 10000

upgrade: deps ## a million requests while nodes go to the next version and back, or REQUESTS=100000, or PREVIOUS=commit
	cd server/test/nodes && go test -count=1 -timeout 0 -v -run 'TestUpgrades$$' . -requests $(or $(REQUESTS),1000000) $(if $(PREVIOUS),-previous $(PREVIOUS))

load: deps ## new tokens beside 1,000 callers of slow servers, tokens beside 100,000 users, 1,000 crawls while replies arrive, and a million requests without a secret
	cd server/bench && go test -count=1 -timeout 0 -v -run 'TestNewTokensBesideSlowServers$$|TestManyUsersBesideOthers$$|TestCrawls$$|TestWithoutSecrets$$' . -callers 1000 -users 100000 -crawls 1000 -requests 1000000

fips: ## test with Go's module for FIPS 140-3, where no other cryptography is allowed: some minutes, once
	cd server/test/fips && GOFIPS140=v1.0.0 $(TEST) .

sizing: deps ## the memory of connectors, users and callers, for docs/operating.md
	cd server/bench && go test -count=1 -v -run 'TestSizing$$' .

screenshots: deps ## make the pictures of docs/console.md again
	@mkdir -p docs/images
	cd server/test/console && go test -count=1 -run TestScreenshots . -screenshots $(CURDIR)/docs/images

release: ## make the files of a release VERSION=v0.1.0 from the last commit in .build/release, and the site, and try each; publish nothing
	rm -rf .build/release && mkdir -p .build
	go -C tools/release run . '$(or $(VERSION),v0.0.0)' $(CURDIR)/.build/release
	tools/release/smoke .build/release
	$(MAKE) chart fips site

chart: $(KUBERNETES)/kube-apiserver ## install, upgrade and roll back the chart of deploy/chart with the API server of Kubernetes
	@tools/debian etcd-server
	cd server/test/chart && $(TEST) -count=1 -tags cluster -v -run 'TestCluster$$' . -kubernetes $(CURDIR)/$(KUBERNETES)

site: ## write the documents as web pages into .build/site, or those of VERSION=v0.2.0
	@$(MAKE) npm NPM=tools/site
	go -C tools/site run . $(or $(patsubst v%,%,$(VERSION)),0.1) $(CURDIR)/.build/site

mutants: $(GREMLINS)/gremlins ## change the code of PKG=./host/internal/seal, one thing at a time, and list what none of its tests notices
	$< unleash --threshold-efficacy 90 --timeout-coefficient 5 $(PKG)

check: lint rebuild ## linters, go vet's among them, and that the compiled plugins match their sources

unit: deps
	@# A module on each of two processors. Those of internal/docs are not cached: they read files of both, and go test tracks one.
	@# The compilers of other languages are for test-all.
	@($(TEST) -p 1 $$(go list ./... | grep -v '/test/') && cd server && $(TEST) -count=1 ./internal/docs && $(TEST) $(WITH_PATHS)) & root=$$!; \
	(cd server && $(TEST) -p 1 -skip '/^pluginlang$$' $$(go list ./... | grep -v '/server/internal/docs$$')) || { wait $$root; exit 1; }; wait $$root

race: deps
	@for module in $(MAIN); do (cd $$module && $(TEST) -race $$($(CONCURRENT))) || exit 1; done

plain: deps
	@for module in $(MAIN); do (cd $$module && \
		$(TEST) $$(go list ./... | grep -v '/test/\|/server/internal/docs$$' | grep -vxF "$$(go list $$($(CONCURRENT)))")) || exit 1; done
	cd server && $(TEST) -count=1 ./internal/docs && $(TEST) $(WITH_PATHS)
	@for module in $(MAIN); do (cd $$module && files=$$($(WITHOUT_RACE)) && \
		$(TEST) -run "^($$(sed -n 's/^func \(Test[^(]*\).*/\1/p' $$files | paste -sd'|'))$$" $$(dirname $$files | sort -u)) || exit 1; done

others: deps
	$(TEST) -race ./test/...

modules: deps
	@# Two at a time, because some wait for most of their time, faults the longest. The output of each is kept together.
	@printf '%s\n' server/test/faults $(filter-out server/test/faults,$(MODULES)) | xargs -P 2 -I DIR bash -c \
		'output=$$(cd DIR && $(TEST) ./... 2>&1); status=$$?; printf "== DIR\n%s\n" "$$output"; exit $$status'

tidy:
	@for module in $(MAIN) $(MODULES); do (cd $$module && go mod tidy -diff) || { echo "run go mod tidy in $$module" >&2; exit 1; }; done

rebuild: tinygo
	go run ./tools/plugin check $(PLUGINS) $(EXAMPLES)
	go run ./tools/plugin check -guest $(GUESTS)

lint: $(LINT)/golangci-lint ## golangci-lint and gofumpt, on all packages or on those in DIRS, and actionlint
	@# All modules at once, as one workspace: a run for each would analyse what they depend on anew.
	@mkdir -p .build && rm -f $(WORK) && GOWORK=$(WORK) go work init $(MAIN) $(MODULES)
	@GOWORK=$(WORK) $< run --allow-parallel-runners -c .golangci.yml $(if $(DIRS),$(DIRS:%=./%),$(patsubst %,./%/...,$(MAIN) $(MODULES)))
	@go -C tools/actionlint tool actionlint
	@unformatted=$$($(SOURCES) | xargs -r $(LINT)/gofumpt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make format:" $$unformatted >&2; exit 1; fi

format: $(LINT)/golangci-lint ## format all Go sources
	$(SOURCES) | xargs -r $(LINT)/gofumpt -w

hook: ## let git check each commit as tools/hooks/pre-commit says
	git config core.hooksPath tools/hooks

$(LINT)/golangci-lint:
	go -C tools/lint build -o $(CURDIR)/$(LINT)/ mvdan.cc/gofumpt github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(GREMLINS)/gremlins:
	go -C tools/gremlins build -o $(CURDIR)/$(GREMLINS)/ github.com/go-gremlins/gremlins/cmd/gremlins

# Helm asks the API server for its version, and refuses one that has none.
$(KUBERNETES)/kube-apiserver:
	cd tools/kubernetes && go build -o $(CURDIR)/$(KUBERNETES)/ \
		-ldflags "-s -X k8s.io/component-base/version.gitVersion=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes)" \
		k8s.io/kubernetes/cmd/kubectl k8s.io/kubernetes/cmd/kube-apiserver

deps: tinygo npm ## install what the tests need: Debian packages, TinyGo, npm packages
	@tools/debian gcc libc6-dev clang-19 lld-19 python3-jose python3-jwt python3-cryptography python3-botocore python3-oauthlib rustc libstd-rust-dev-wasm32 lld-14 lighttpd apache2-bin wabt chromium docker-registry pgbouncer prometheus bash-completion fish zsh man-db mandoc $(MEASURED)

npm:
	@command -v npm >/dev/null || tools/debian npm
	@for dir in $(NPM); do \
		cmp -s $$dir/package-lock.json $$dir/node_modules/.installed-lock && continue; \
		(cd $$dir && npm ci --ignore-scripts --no-audit --no-fund && cp package-lock.json node_modules/.installed-lock); \
	done

clean: ## remove the tools and caches in .build
	rm -rf .build

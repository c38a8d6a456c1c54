# Everything runs from a fresh clone: what a target needs, it starts, and stops again. `make` lists the targets.

# The modules that go.work lists, in its order: "." and the folders below it.
MODULES   := $(shell awk '/^use \(/ { use = 1; next } /^\)/ { use = 0 } use { sub("^[.]/", "", $$1); print $$1 }' go.work)
GOLANGCI  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOFUMPT   := go run mvdan.cc/gofumpt@v0.12.0
ACTIONLINT := go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 -shellcheck= -pyflakes=
RELEASE   := go run -C proof ./release -root '$(CURDIR)'
BENCHTIME ?= 2s
SEEDS     ?= 20000
DURATION  ?= 10m
SERVERS   ?= 3
FAULTS    ?= all
RIVALS    ?= all
KILLS     ?= 200
HOURS     ?= 1

# Real servers, ahead of a command that needs them. The program stands in the docker module, so that what it needs stays
# out of the root's go.mod; -dir is where it runs the command, with ZK_SERVERS set.
ENSEMBLE := go run -C docker ./cmd/ensemble -dir '$(CURDIR)'

# They run in containers where an engine answers, and then need an image: docker/image.sh builds one where no registry
# has it. Elsewhere, or where the caller says what to use, there is nothing to prepare.
IMAGE := set -eu; \
	if [ -z "$${ZK_SERVERS:-}$${ZK_TEST_IMAGE:-}" ] && [ "$${ZK_TEST_BACKEND:-docker}" = docker ] && \
		docker info >/dev/null 2>&1; then \
		ZK_TEST_IMAGE=$$(docker/image.sh); export ZK_TEST_IMAGE; \
	fi;

# The race detector waits for a second before a test binary ends.
export GORACE ?= atexit_sleep_ms=0

.DEFAULT_GOAL := help
.PHONY: bench browser campaign check clean clients demo demo-real evidence examples format help image kills lab lint performance race release samples service-image simulate stores test tidy torture torture-mutants torture-rivals torture-service

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { name[++n] = $$1; text[n] = $$2; if (length($$1) > width) width = length($$1) } \
		END { for (i = 1; i <= n; i++) printf "make %-" width "s  %s\n", name[i], text[i] }' $(MAKEFILE_LIST)

demo: bin/lockkeeper ## watch a leader lose its term and its stale write rejected; needs Go only
	@bin/lockkeeper demo

lab: bin/lockkeeper ## disturb three processes that contend for a lock, on a page; needs Go only
	@bin/lockkeeper dev --lab

demo-real: bin/lockkeeper ## the same on a real ensemble of three
	@$(IMAGE) $(ENSEMBLE) -n 3 -tick 500ms -- sh -c 'exec bin/lockkeeper demo --servers "$$ZK_SERVERS"'

# Real servers of tests are Java processes, where this machine can run and partition them: an ensemble of containers takes ten
# seconds longer to start. The tests of containers use both.
PROCESSES := [ -n "$${ZK_SERVERS:-}$${ZK_TEST_IMAGE:-}$${ZK_TEST_BACKEND:-}" ] || [ "$$(id -u)" != 0 ] || \
	! command -v java >/dev/null || ! command -v ip >/dev/null || export ZK_TEST_BACKEND=java;

# Five groups run at the same time, as most of them also wait, and those that wait longest begin: more would overload two cores. Those that judge when holders are notified, the suite and the short
# torture, excuse only long waits for a processor, and have priority over the others: a sixth of it is what each other process gets.
# Tests that compute run beside all, at the lowest priority. Each command prints its time, and a failure does not keep the others
# from running.
test: ## run all tests, a third of them with the race detector; needs Java or a container engine, and a C compiler
	@$(MAKE) --no-print-directory -j3 check installed
	@$(MAKE) --no-print-directory compiled
	@$(PROCESSES) $(IMAGE) failed=; export RACED="$$(echo $(RACED))" PLAIN="$$(echo $(PLAIN))"; \
	$(MAKE) --no-print-directory test-computed & computed=$$!; \
	$(MAKE) -k --no-print-directory -j5 test-torture test-servers test-containers test-library test-race test-service test-suite test-promises || failed=1; \
	wait $$computed || failed=1; \
	test -z "$$failed"

# With a cold cache, compilers beside the groups would take the processors from tests that real servers time. This compiles what the
# groups link, and the S3 server; make check has compiled what is below the rest. More garbage costs an eighth less time.
.PHONY: compiled
COMPILE := GOGC=400
compiled:
	@echo compile; $(COMPILE) go list -race -export -deps -test $(RACED) ./proof/torture/cmd/torture >/dev/null
	@$(COMPILE) go list -export -deps -test $(PLAIN) $(ELSEWHERE) >/dev/null
	-@$(TEST) -timeout 40m -run '^TestS3Serves' ./proof/torture/stores

# What tests start and Go does not bring. Without it their tests say that they were not run, or fail where CI is set.
.PHONY: installed
installed:
	-@zktest/foreign/clients.sh
	-@proof/torture/stores/install.sh
	-@proof/page/chromium.sh

# run COMMAND…
STEPS = failed=; run() { what=; for arg in "$$@"; do case "$$arg" in ./*) what="$$what $$arg" ;; esac; done; \
	begin=$$(date +%s); "$$@" || failed="$$failed$${what:- all}"; echo "make $@:$$what: $$(($$(date +%s) - begin)) s"; };
DONE  = test -z "$$failed" || { echo "make $@: failed$$failed"; exit 1; }
# make check has vetted all. Nobody debugs these programs: without DWARF and symbols each is linked in half the time.
TEST := go test -vet=off -shuffle=on -ldflags=-s
RACE := $(TEST) -race
NICE := nice -n 8
PROMISES = $(shell sed -n 's/^func \(Test[A-Za-z]*\).*/^\1$$/p' */promises*_test.go | paste -sd '|')
.PHONY: test-computed test-containers test-library test-promises test-race test-servers test-service test-suite test-torture

# The packages that the groups below test in their own ways.
ELSEWHERE := ./docs ./internal/house ./docker/... ./proof/deploy ./proof/mutants ./proof/release ./proof/simulation \
	./proof/torture/cmd/rival ./proof/torture/cmd/torture ./proof/torture/fences ./proof/torture/rivals \
	./proof/torture/secured ./proof/torture/stores ./proof/torture/suite
# client-go, controller-runtime, SQLite, the clients of clouds and the browser's would take minutes to compile with the race detector,
# with which the short torture runs the proof's own packages. The comparison of zktest with ZooKeeper mostly waits for both.
UNRACED   := ./election/clientgo/... ./examples/... ./proof/... ./zktest/internal/conformance
# Tests of the service and its commands mostly wait.
SERVICE   := ./cmd/lockkeeper/... ./service/... ./zktest/foreign
PACKAGES  = go list $(patsubst %,./%/...,$(MODULES)) | grep -vxF "$$(go list $(ELSEWHERE) $(1))"

# With the race detector tests take four times as long: make test runs one package in three with it, from a random one on, and lists
# these and the others once for its groups. make race runs all.
ifndef FIRST
FIRST := $(shell expr $$(date +%s) % 3)
endif
export FIRST
RACED ?= $$($(call PACKAGES,$(UNRACED)) | awk 'NR % 3 == $(FIRST)')
PLAIN ?= $$($(call PACKAGES,$(RACED)))

# Tests of crowds leave themselves out under the race detector. The suite that compares zktest with a real server starts one.
CROWDS      = $(shell grep -rl --include='*_test.go' 'need\.NoRaceDetector' */)
CROWD_NAMES = $(shell awk -F '[^A-Za-z0-9]+' '/^func Test/ { name = $$2 } /need\.NoRaceDetector/ { print "^" name "$$" }' $(CROWDS) | paste -sd '|')
test-race:
	@raced="$(RACED)"; $(STEPS) run $(NICE) $(RACE) -p 2 -timeout 40m $$raced; \
	crowds=$$(go list $(sort $(addprefix ./,$(dir $(CROWDS)))) | grep -xF "$$(printf '%s\n' $$raced)"); \
	[ -z "$$crowds" ] || run $(NICE) $(TEST) -timeout 40m -run '$(CROWD_NAMES)' $$crowds; \
	$(DONE)

# The packages that wait longest are the last ones of the alphabet, and begin.
test-library:
	@$(STEPS) run $(NICE) $(TEST) -p 2 -timeout 40m $$(printf '%s\n' $(PLAIN) | grep -vxF "$$(go list $(SERVICE))" | sort -r); \
	$(DONE)

test-service:
	@$(STEPS) run $(NICE) $(TEST) -timeout 40m $$(printf '%s\n' $(PLAIN) | grep -xF "$$(go list $(SERVICE))"); \
	$(DONE)

# Examples and promises run on zktest above, and here on a real server.
test-promises:
	@$(STEPS) run $(NICE) $(ENSEMBLE) -n 1 -- $(TEST) -timeout 40m -run "^Example|^TestNextCandidateLeadsBeforeSessionOfExitedProcessExpires$$|$(PROMISES)" \
		./lock ./election ./election/clientgo ./epoch ./group ./schedule ./barrier ./assign; \
	$(DONE)

test-containers:
	@unset ZK_TEST_BACKEND; $(IMAGE) $(STEPS) run $(NICE) $(TEST) -p 1 -parallel 3 -timeout 40m ./docker/...; \
	run $(NICE) $(TEST) -p 1 -parallel 3 -timeout 40m ./proof/deploy; \
	run $(NICE) $(TEST) -tags ensemble ./examples/ci; \
	$(DONE)

test-servers:
	@$(STEPS) run $(NICE) $(TEST) -p 1 -timeout 40m ./proof/torture/fences ./proof/torture/stores ./proof/torture/secured \
		./proof/torture/rivals ./proof/torture/cmd/rival; \
	$(DONE)

# A sample: one frame of 800 and one mutant of 83, each time from a random one on, and the first plans. `make simulate` runs
# all, and a sample with the race detector.
test-computed:
	@$(STEPS) run nice -n 10 $(TEST) -timeout 60m ./proof/simulation -sim.every=800 -sim.seeds=60; \
	run nice -n 10 $(TEST) -timeout 60m ./proof/mutants -mutants.every=83; \
	run nice -n 10 $(TEST) -timeout 60m ./proof/release; \
	$(DONE)

# The short torture runs the recipes with the race detector on real servers, the suite without.
test-torture:
	@$(STEPS) run $(RACE) -timeout 40m ./proof/torture/cmd/torture; \
	$(DONE)

test-suite:
	@$(STEPS) run $(TEST) -timeout 40m ./proof/torture/suite; \
	$(DONE)

race: ## run all tests with the race detector of which make test runs a third so
	@$(PROCESSES) $(IMAGE) $(RACE) -timeout 60m $$($(call PACKAGES,$(UNRACED))) ./docker/...

examples: ## freeze a leader during its work, in each example, and see its stale write rejected; needs Go only
	cd examples && go run ./worker -freeze
	cd examples && go run ./controller -freeze

simulate: ## try many plans of faults in fake time, cut each frame of each scenario, and run each mutant (SEEDS=20000)
	go test ./assign -run '^TestAtMostOneOwner' -assign.every 1
	cd proof && go test -timeout 0 ./simulation -sim.seeds $(SEEDS) && go test -race -timeout 0 ./simulation && go test -timeout 0 ./mutants

# 200 processes with a guardian hold a lock and are killed; it must pass on within 0.05 T each time.
kills: ## kill holders on a real server, and print the times to the next grant in session timeouts T (KILLS=200)
	@$(IMAGE) for t in 4s 10s; do $(ENSEMBLE) -n 1 -tick 2s -- \
	go test -count=1 -v ./recipes/guard -run '^TestKilledHoldersHandOver' -guard.kills '$(KILLS)' -guard.timeout $$t || exit 1; done

samples: ## run whole what make test samples on real servers: 100 stale writes to each guard, pairs of five servers killed, rivals
	@$(PROCESSES) $(IMAGE) cd proof && \
	go test -timeout 60m ./torture/fences -run '^TestStaleWriteOf' -fences.trials 100 && \
	go test -timeout 60m ./torture/suite -run '^TestAnyTwoOf' -suite.pairs 10 && \
	go test -timeout 60m ./torture/rivals -run '^TestRivalIsNotFoundBrokenWithoutFaults$$' -rivals.sample 7

# What comes of it goes to the folder that it names; the plan in it is run again with TORTURE='-plan FILE'. Load is
# TORTURE='-waiters 50 -holds 1000'. The status is 1 if something was broken, 3 if a promise was never tested, and 4 if
# nothing was found, but the servers or the harness failed.
torture: ## break a real ensemble and its clients, and look for overlapping grants (DURATION=10m SEED=… SERVERS=3 FAULTS=…)
	@$(IMAGE) cd proof && go build -o ../bin/torture ./torture/cmd/torture && \
	exec ../bin/torture -duration '$(DURATION)' -servers '$(SERVERS)' -faults '$(FAULTS)' $(if $(SEED),-seed '$(SEED)') $(if $(REPLICAS),-replicas '$(REPLICAS)') $(TORTURE)

# Every second contender uses the service, the others the library, on the same paths.
torture-service: REPLICAS = 2
torture-service: torture ## the same with replicas of the lock service, broken too (REPLICAS=2 and what torture takes)

# Each of these breaks the library in one place: the torture must find it within the three minutes. Those of leases run with the
# lock service.
MUTANTS ?= proof/torture/testdata/mutants/deadline_after_two_timeouts.patch proof/torture/testdata/mutants/deadline_by_the_later_clock.patch \
	proof/torture/testdata/mutants/lost_node_deleted_late.patch proof/mutants/testdata/grant_without_fresh_proof.patch \
	proof/mutants/testdata/permits_past_a_waiter.patch proof/mutants/testdata/activation_run_before_it_is_stored.patch \
	proof/mutants/testdata/lease_valid_from_the_answer.patch
torture-mutants: ## break the library on purpose, and see the torture find it (SEED=1 MUTANTS='FILE.patch …')
	@$(IMAGE) cd proof && go build -o ../bin/torture ./torture/cmd/torture && dir=$$(mktemp -d) && for mutant in $(MUTANTS); do \
		name=$$(basename "$$mutant" .patch); status=0; replicas=0; \
		case "$$name" in lease_*) replicas=2 ;; esac; \
		../bin/torture -duration 3m -replicas $$replicas -seed '$(or $(SEED),1)' -mutant '$(CURDIR)/'"$$mutant" -out "$$dir/$$name" $(TORTURE) || status=$$?; \
		if [ $$status -ne 1 ] || ! grep -q '^first finding' "$$dir/$$name/summary.txt"; then echo "$$name: not found: the torture ended with status $$status"; exit 1; fi; \
		echo "$$name: found, $$(grep '^first finding' "$$dir/$$name/summary.txt" | tr -s ' '): everything is in $$dir/$$name"; \
	done

# Each part that has ended is added to docs/evidence/campaign; make evidence then shows the sums. With IMAGES, the torture uses
# one after the other: IMAGES=zookeeper-local:bookworm,zookeeper-local:trixie for ZooKeeper 3.8 and 3.9.
campaign: ## run simulation and torture by turns, with new seeds, for HOURS, and add to the evidence (HOURS=1 IMAGES=A,B ONLY=simulation)
	@$(IMAGE) cd proof && go run ./torture/cmd/campaign -hours '$(HOURS)' $(if $(IMAGES),-images '$(IMAGES)') $(if $(ONLY),-only '$(ONLY)')

# Those whose servers cannot be had are named and left out.
torture-rivals: ## torture the locks of other systems, one after the other (DURATION=10m SEED=… FAULTS=… RIVALS=etcd,…)
	-@proof/torture/stores/install.sh
	@$(IMAGE) cd proof && go build -o ../bin/rival ./torture/cmd/rival && \
	exec ../bin/rival -duration '$(DURATION)' -rivals '$(RIVALS)' -faults '$(FAULTS)' $(if $(SEED),-seed '$(SEED)') $(TORTURE)

evidence: ## make docs/evidence.md anew, from the documents of runs in docs/evidence
	go run -C proof ./torture/cmd/evidence '$(CURDIR)/docs'

clients: ## get the clients of others that tests run: Kazoo and Curator, from Debian's packages
	@zktest/foreign/clients.sh

browser: ## get the browser that tests run: headless Chromium, from Debian's packages
	@proof/page/chromium.sh

stores: ## get the servers that tests run: PostgreSQL, MariaDB, Redis, etcd, Prometheus and Kerberos, from Debian's packages
	@proof/torture/stores/install.sh

# What make test checks before it runs a test.
check: tidy vet ## check vet, formatting, go.mod files, workflows, import rules and links; quick
	@echo gofumpt; files=$$($(GOFUMPT) -l .) || exit 1; \
	if [ -n "$$files" ]; then printf '%s\n' "not formatted by gofumpt; make format does it:" $$files; exit 1; fi
	$(ACTIONLINT) .github/workflows/*.yml examples/ci/workflow.yml
	go test ./docs ./internal/house

.PHONY: vet
vet:
	$(COMPILE) go vet $(patsubst %,./%/...,$(MODULES))

format: ## format all Go files with gofumpt
	$(GOFUMPT) -l -w .

lint: bin/golangci-lint ## run golangci-lint on every module
	@set -e; set -- $(MODULES); n=0; for m in $(MODULES); do n=$$((n + 1)); echo "lint $$m ($$n of $$#)"; \
		(cd $$m && '$(CURDIR)/bin/golangci-lint' run ./...); done

tidy: ## check that every go.mod is tidy, as consumers see it: without go.work
	@$(RELEASE) -tidy

# The published modules are listed in proof/release/published.txt.
# With OUT, binaries, images and bills of materials of the commit are built twice, in two folders and with two caches.
release: ## print what a release would change and tag (VERSION=v0.1.0; APPLY=1: commit and tag, but not push; OUT=DIR: build it, print checksums)
	@$(RELEASE) $(if $(APPLY),-apply) '$(VERSION)'
	@$(if $(OUT),$(RELEASE) -artifacts '$(abspath $(OUT))' '$(VERSION)')

# The cases of proof/bench, which take an hour. Each writes a document to OUT when it has ended, so that RUN continues an
# interrupted run; those that fail are named, and the others run. Without RUN, guards are measured, and requests of recipes with
# 1,000 waiters are counted.
bench: ## measure locks, ours and those of others, against the project's budgets (SHORT=1 RUN=REGEXP OUT=DIR PROFILE=1; STRICT=1: fail over a budget)
	-@zktest/foreign/clients.sh
	-@proof/torture/stores/install.sh
	@set -e; $(PROCESSES) $(IMAGE) cd proof; \
	go build -o ../bin/bench-cases ./bench; failed=; \
	../bin/bench-cases $(if $(SHORT),-short) $(if $(RUN),-run '$(RUN)') $(if $(OUT),-out '$(abspath $(OUT))') $(if $(PROFILE),-profile) $(if $(STRICT),-strict) || failed=1; \
	$(if $(RUN)$(SHORT),,go test -v -run '^$$' -bench . -benchtime $(BENCHTIME) ../fencing/... ./torture/fences || failed=1; \
	go test -v -run '^TestRecipesCostTheDocumentedRequests$$' -timeout 60m ./torture/suite -cost.crowd || failed=1;) \
	test -z "$$failed"

performance: ## make docs/performance.md and its plots anew, from the documents in docs/performance
	go run -C proof ./bench -page

# With DEBIAN, it is built with the ZooKeeper of that release of Debian. Then all tests run on it with
# ZK_TEST_IMAGE=zookeeper-local:trixie make test.
image: ## prepare the server image, where there is an engine, and print its name (DEBIAN=trixie for ZooKeeper 3.9)
	@$(if $(DEBIAN),exec docker/image.sh -release '$(DEBIAN)';) $(IMAGE) echo "$${ZK_TEST_IMAGE:-none needed: no container engine answers, or the environment names servers or Java}"

# The folder of the binary is the context of the build, so that nothing else gets into the image. No registry is needed.
service-image: ## build the image of the lock service, lockkeeper:local, which service/deploy/compose.yaml runs
	CGO_ENABLED=0 go build -C cmd/lockkeeper -trimpath -o ../../bin/image/lockkeeper .
	docker build -f service/deploy/Dockerfile -t lockkeeper:local bin/image

clean: ## remove what the targets have built
	rm -rf bin

# Always asked for: only the go command knows whether it is up to date.
.PHONY: bin/lockkeeper
bin/lockkeeper:
	go build -o bin/lockkeeper ./cmd/lockkeeper

# Go prints each package that it compiles, which is nothing if all are cached. The second command is for its status.
.PHONY: bin/golangci-lint
bin/golangci-lint:
	@echo 'build golangci-lint'
	@GOBIN='$(CURDIR)/bin' go install -v $(GOLANGCI) 2>&1 | \
		awk '/ / { print } NR % 100 == 0 { print "build golangci-lint: " NR " packages compiled"; fflush() }'
	@GOBIN='$(CURDIR)/bin' go install $(GOLANGCI)

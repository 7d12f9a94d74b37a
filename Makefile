# windtunnel: `make demo` flies the density test, `make test` passes every test.
SHELL := /bin/bash
.DELETE_ON_ERROR:

GO        ?= go
BIN       := bin/windtunnel
PLANE     := bin/kube-plane

# Tags, flags and stamps of the plane are those of official builds of Kubernetes:
# components report the release, the commit and its date, in their User-Agents too.
K8S       = $(shell cd plane && $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)
K8S_INFO  = $(shell cd plane && $(GO) mod download -json k8s.io/kubernetes | sed -n 's/.*"Info": "\(.*\)",/\1/p')
K8S_STAMPS = gitVersion=$(K8S) gitMajor=1 gitMinor=$(word 2,$(subst ., ,$(K8S))) gitTreeState=clean \
	gitCommit=$(shell sed -n 's/.*"Hash":"\([^"]*\)".*/\1/p' $(K8S_INFO)) buildDate=$(shell sed -n 's/.*"Time":"\([^"]*\)".*/\1/p' $(K8S_INFO))
K8S_LDFLAGS = -s -w $(foreach s,$(K8S_STAMPS),-X k8s.io/component-base/version.$(s) -X k8s.io/client-go/pkg/version.$(s))

.PHONY: all build image release push-image test-release demo kubectl test test-packages test-image test-plane test-operator test-short test-accuracy test-jitter test-robust claims test-web vet lint race fuzz vulncheck bench bench-once bench-check bench-keep bench-fleet bench-load bench-hollow bench-leader web docs clean

all: build

build: $(PLANE) ## bin/windtunnel, and bin/kube-plane beside it
	@mkdir -p bin
	$(GO) build -ldflags "-s -w" -o $(BIN) ./cmd/windtunnel

# The one build that links Kubernetes: minutes when the build cache is cold.
$(PLANE): plane/main.go plane/etcd.go plane/go.mod plane/go.sum
	@mkdir -p $(@D)
	cd plane && CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -tags selinux,notest,grpcnotrace -ldflags "$(K8S_LDFLAGS)" -o $(CURDIR)/$(PLANE) .
	@touch $(PLANE)

IMAGE     := windtunnel:latest

# Without the C library, of which the image has none.
image: export CGO_ENABLED = 0
image: build ## bin/image, an OCI layout of bin/windtunnel and bin/kube-plane, and bin/image.tar (IMAGE=NAME:TAG): no container engine is needed
	cd tools/image && $(GO) run . -binary $(CURDIR)/$(BIN) -beside $(CURDIR)/$(PLANE) -out $(CURDIR)/bin/image -tag $(IMAGE)

# PLANES=no leaves kube-plane and the image out, which need minutes of compiling; TARGETS names
# a part of the systems. SIGNING_KEY_FILE in the environment names the SSH key that signs.
PLANES    := yes
TARGETS   :=
VERSION   :=
release: ## dist/: archives, packages, image, licenses, components, manifests and sums of VERSION=v0.1.0 (PLANES=no: without kube-plane; TARGETS=linux/amd64,...)
	cd tools/release && $(GO) run . -root $(CURDIR) -version '$(VERSION)' -targets '$(TARGETS)' -plane=$(if $(filter no,$(PLANES)),false,true) $(RELEASEARGS)

push-image: ## upload the image of dist/ to REGISTRY as VERSION
	cd tools/image && $(GO) run . -out $(CURDIR)/dist/windtunnel_$(VERSION:v%=%)_oci.tar -push '$(REGISTRY):$(VERSION)'

test-release: ## what makes a release, a module of its own; with dist/ there, also its archive in an empty root
	cd tools/release && $(GO) vet . && $(GO) test -count 1 -timeout 20m .

demo: build ## run examples/density.yaml on the plane of bin/kube-plane
	$(BIN) run examples/density.yaml

# Most of a flight is waiting: four packages with three planes each at a time, and beside
# them what is of other modules, and all of vet. What needs a machine to itself is a proof.
test: ## every test, on the real plane too
	$(MAKE) -j4 test-packages test-operator test-image test-release test-plane vet

# What takes longest begins first: at the end the cores would wait for it.
LONGEST   := ./cmd/windtunnel ./planes/... ./internal/fly/plane ./internal/sim/hollow/conformance ./internal/opinion/report

test-packages: build kubectl
	WINDTUNNEL_BIN=$(CURDIR)/$(BIN) $(GO) test -vet=off -p 4 -parallel 3 -timeout 45m $(LONGEST) ./...

test-image: ## what makes the image, a module of its own
	cd tools/image && $(GO) vet ./... && $(GO) test ./...

# No vet: it would compile Kubernetes a second time, without the tags of the build.
test-plane: ## whether the module of the plane is tidy
	cd plane && $(GO) mod tidy -diff

# Its module is of its own: nothing of it enters windtunnel's dependencies.
kubectl: bin/kubectl ## bin/kubectl, which tests compare hollow clusters and the real plane with
bin/kubectl: bench/kubectl/go.mod
	@mkdir -p bin
	cd bench/kubectl && CGO_ENABLED=0 $(GO) build -ldflags "$(K8S_LDFLAGS)" -o $(CURDIR)/bin/kubectl k8s.io/kubernetes/cmd/kubectl

# CI is empty: in an operator's own CI a run that cannot tell fails, and a machine that
# does other work cannot.
test-operator: build ## the example operator, a module of its own, with its scale test
	cd examples/operator && $(GO) vet ./... && CI= WINDTUNNEL_BIN=$(CURDIR)/$(BIN) $(GO) test -p 1 -count 1 -timeout 10m ./...

test-short: ## what passes in seconds, without Kubernetes and without a plane
	$(GO) test -short ./...

test-accuracy: build ## the proofs that take up to two hours and want the machine to themselves
	WINDTUNNEL_ACCURACY=1 WINDTUNNEL_BIN=$(CURDIR)/$(BIN) $(GO) test -v -p 1 -timeout 2h ./bench/accuracy/...
	WINDTUNNEL_ACCURACY=1 WINDTUNNEL_BIN=$(CURDIR)/$(BIN) $(GO) test -v -p 1 -timeout 2h -run '^TestProof' $(PROOFS)

# The tests that ask an API server in memory, while all that it says comes late by chance.
JITTERED  = $(addprefix ./,$(sort $(dir $(shell git grep -l 'apitest\.' -- 'internal/*_test.go' 'planes/*_test.go'))))
JITTER    := 100ms

claims: build ## plan the command of each claim of the published reports (planes/*/claims.yaml), and count the claims by state
	WINDTUNNEL_CLAIMS=1 $(GO) test -count 1 -v -run TestClaims ./planes

test-jitter: ## whether tests take for granted that a watch is as quick as they are
	WINDTUNNEL_JITTER=$(JITTER) $(GO) test -short -vet=off -count 1 -p 4 -parallel 16 $(JITTERED)

# Another one each time, so that each night tries something new.
SEED      := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')

test-robust: build ## kills, damage, hostile peers, a soak and an hour of fuzzing, by chances of a new SEED, which it prints; SEED=n repeats one; prints counts, and takes some four hours
	@echo "SEED=$(SEED)"
	WINDTUNNEL_ROBUST=1 WINDTUNNEL_SEED=$(SEED) WINDTUNNEL_BIN=$(CURDIR)/$(BIN) $(GO) test -v -p 1 -count 1 -timeout 5h ./bench/robust/...
	$(MAKE) fuzz FUZZTIME=90s

# The packages whose proofs stand beside their tests.
PROOFS    := $(addprefix ./,$(sort $(dir $(shell git grep -l 'func TestProof' -- '*_test.go' ':!tools'))))

test-web: ## the report's and the live page's TypeScript
	cd web && npm ci --no-audit --no-fund --silent && npm test

vet: ## gofmt and go vet; the house style is a test
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi
	$(GO) vet ./...

lint: vet ## what .golangci.yml asks for; the linter is of tools/go.mod, and takes minutes to build once
	$(GO) build -modfile tools/go.mod -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	bin/golangci-lint run ./...

race: ## the race detector over all but the real plane
	$(GO) test -short -race -timeout 25m ./...

FUZZTIME  := 5s
fuzz: ## every fuzz target for FUZZTIME, from the committed corpora in testdata/fuzz
	tools/fuzz $(FUZZTIME)

# The database of vulnerabilities, as a module.
VULNDB    := golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018
vulncheck: ## known vulnerabilities in what this tree calls; tools/vulncheck/accepted.txt has those that are accepted, with reasons
	$(GO) build -modfile tools/go.mod -o bin/govulncheck golang.org/x/vuln/cmd/govulncheck
	cd tools && $(GO) build -o ../bin/vulncheck ./vulncheck
	bin/vulncheck -entries "$$($(GO) mod download -json $(VULNDB) | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/data/osv" -accepted tools/vulncheck/accepted.txt bin/govulncheck ./...

bench: build ## the figures of the README
	$(GO) test -run '^$$' -bench . -benchtime 1s ./internal/...
	$(GO) run ./bench/flight -bin $(BIN)

bench-once: ## whether each benchmark runs
	$(GO) test -run '^$$' -bench . -benchtime 1x -p 2 ./internal/... ./planes/.../internal/...

# Six repetitions a side is what the comparison needs; one after the other, on a quiet
# machine. Times are judged between outputs of one kind of CPU, bytes and allocations always.
BASELINE  := bench/baseline/baseline.txt
BENCHMARKS = $(GO) test -run '^$$' -bench . -benchmem -benchtime 100ms -count 6 -p 1 ./internal/... ./planes/.../internal/...
JUDGED    :=
bench-check: ## the benchmarks of this tree against those that are kept, judged by compare (JUDGED=-allocations on a machine that others use)
	@mkdir -p bench/out
	$(BENCHMARKS) > bench/out/benchmarks.txt
	$(GO) run ./bench/baseline -kept $(BASELINE) $(JUDGED) bench/out/benchmarks.txt

bench-keep: ## keep this tree's benchmarks as those that the next are judged against
	@mkdir -p bench/out
	$(BENCHMARKS) > bench/out/benchmarks.txt
	mv bench/out/benchmarks.txt $(BASELINE)

KWOK      := bench/kwok
# Minutes when the build cache is cold: kwok 0.8 links another release of client-go.
bench-fleet: build ## the fleet beside the kwok controller (ARGS="-nodes 100 -pods 500 -many 1000" for a small run); writes bench/out/fleet.json
	cd $(KWOK) && CGO_ENABLED=0 $(GO) build -ldflags "-s -w" -o $(CURDIR)/bin/kwok sigs.k8s.io/kwok/cmd/kwok
	cd $(KWOK) && $(GO) build -o $(CURDIR)/bin/kwok-stages .
	$(GO) run ./bench/fleet -bin $(BIN) -stages "$$(cd $(KWOK) && $(GO) list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage" $(ARGS)

bench-load: build ## the load generator beside a client-go worker pool; writes bench/out/load.json
	$(GO) run ./bench/load -bin $(BIN)

bench-hollow: build ## hollow clusters beside a kube-apiserver with etcd, and client-go's fake; writes bench/out/hollow.json
	$(GO) run ./bench/hollow -bin $(BIN) $(ARGS)

bench-leader: ## what it costs to lead 100 workers, then 1,000 (ARGS="-workers 10 -for 5s" for another number); writes bench/out/leader.json
	$(GO) run ./bench/leader $(or $(ARGS),-workers 100 -rate 10000)
ifeq ($(ARGS),)
	$(GO) run ./bench/leader -workers 1000 -rate 100 -out bench/out/leader-1000.json
endif

web: ## rebuild the committed bundle of report and page
	cd web && npm ci --no-audit --no-fund && npm run build

docs: ## the documentation as a site in docs/.vitepress/dist; a link that leads nowhere ends it
	cd docs && npm ci --no-audit --no-fund && npm run build

clean:
	rm -rf bin dist examples/operator/bin bench/out docs/.vitepress/dist docs/.vitepress/cache

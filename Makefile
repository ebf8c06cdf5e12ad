# Targets with a "##" comment show up in `make help`. Everything that is built
# goes to bin/, everything that is measured or packed goes to dist/.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The targets of this file are no files. For programs the go command knows best what is stale.
.PHONY: $(shell sed -n 's/^\([a-z][a-z0-9 -]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

# Statically linked binaries, and no C compiler needed to build or test.
export CGO_ENABLED := 0

# Binaries contain no paths, so that the same source gives the same bytes in any folder. The
# flag is for tests too: they then share what is compiled.
export GOFLAGS := $(strip -trimpath $(filter-out -trimpath,$(GOFLAGS)))

MODULE      := supercargo.dev/supercargo
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
REVISION    ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
COMMIT_TIME ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

# k8s_ldflags MODFILE: kube-scheduler and the playground's API server say which Kubernetes
# they are; unlinked they would call themselves v0.0.0-master, which clients refuse.
k8s_version = $(shell sed -n 's|^\tk8s.io/kubernetes \(v[0-9a-z.-]*\)$$|\1|p' $(1))
k8s_named   = -s -w $(foreach pkg,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(pkg).gitVersion=$(1) -X $(pkg).gitMajor=$(word 1,$(subst ., ,$(1:v%=%))) -X $(pkg).gitMinor=$(word 2,$(subst ., ,$(1))))
k8s_ldflags = $(call k8s_named,$(call k8s_version,$(1)))
K8S_LDFLAGS := $(call k8s_ldflags,go.mod)
OUR_LDFLAGS := -X $(MODULE)/internal/platform/version.Version=$(VERSION)
LDFLAGS     := $(K8S_LDFLAGS) $(OUR_LDFLAGS)

# Kubernetes of go.mod, and the later versions that kube-scheduler is built for too: with
# what flags. A build tag stands for a version and all that follow. The next version is a beta:
# no release contains its scheduler, and its control plane cannot be built.
K8S_BUILT  := 1.35
K8S_LATER  := 1.36 1.37
K8S_NEXT   := 1.38
build_1.35 := -modfile go.mod
build_1.36 := -modfile go.1.36.mod -tags kubernetes1.36
build_1.37 := -modfile go.1.37.mod -tags kubernetes1.36,kubernetes1.37
build_1.38 := -modfile go.1.38.mod -tags kubernetes1.36,kubernetes1.37,kubernetes1.38

# Kubernetes 1.38 needs a newer Go, which the go command fetches only if it is told so.
with_go_1.38 := GOTOOLCHAIN=go1.27.4

BIN      := bin
DIST     := dist
TOOLS    := bin/tools
GO_BUILD := go build -buildvcs=false -ldflags "$(LDFLAGS)"
BINARIES := kube-scheduler autoscaler descheduler metrics-adapter nginx-exporter node-agent runc-supercargo supercargo
LOCAL    := supercargo-lab# for people's computers: it has no image
CHILDREN := kwok cluster-api# what the playground runs beside itself
PEERS    := descheduler-peer karpenter-peer# programs of others, in modules of their own

# The registry that the manifests name, whose domain is reserved.
IMAGE_REPO ?= registry.invalid/supercargo
IMAGE_TAG  ?= $(VERSION)
PLATFORM   ?= linux/amd64

# go_test NAME,FLAGS: runs go test, keeping its events in dist/NAME.json. A package has
# the time that it may need on a machine with other things to do. go vet is for `make lint`.
TEST_FLAGS ?=
go_test = $(abspath $(TOOLS))/gotestsum --format standard-quiet --jsonfile $(abspath $(DIST))/$(1).json -- -timeout 30m -vet off $(TEST_FLAGS) $(2)

# What looks for our programs in PATH, and what looks for tools there too.
with_bin   = PATH="$(abspath $(BIN)):$$PATH"
with_tools = PATH="$(abspath $(BIN)):$(abspath $(TOOLS)):$$PATH"

# built_in FOLDER,FLAGS: builds a program of another module, of which FOLDER is in.
built_in = go -C $(1) build -buildvcs=false $(2)-ldflags "-s -w" -o $(abspath $@)

# Integration tests start control planes and need kwok and cluster-api, e2e tests
# start the built binaries, browser tests start Chromium, schedulerperf needs an
# etcd: everything else is a unit test.
integration      := /test/integration
not_unit         := $(integration)|/test/e2e|/test/browser|/test/schedulerperf
unit_pkgs         = $$(go list ./... | grep -vE '$(not_unit)')
first_pkgs        = $$(go list -f '{{if .TestGoFiles}}{{.ImportPath}}{{end}}' ./test/integration/{replica,eviction,cli,nodefleet,adapter,migration,agent} ./test/integration) # the slowest first
integration_pkgs  = $$(go list ./... | grep -E '$(integration)')

# Of the integration tests, test-first runs those that show each program at work once. Of
# the tests with services of others, test-integration, e2e-openstack and e2e-nodes leave those
# to test-nightly that are slow and rarely fail. A test in test/suites holds
# both lists to tests that exist.
first_tests := \
	TestConstrainedPodsFindTheOneNodeThatSuits \
	TestPodsThatFitNowhereAreBoundWhenANodeComes \
	TestAFleetGrowsByTheCheapestMixAndShrinksToNothing \
	TestWhileASourceIsDownReplicasStay \
	TestAPodOfAJobMovesAndItsJobSeesNothingOfIt \
	TestTheCommandMovesAPodAndSaysHowItWent \
	TestAPodOfAJobIsDrainedTwiceAndItsJobCountsNothing \
	TestMoveGoesAllTheWay \
	TestBothAPIsAreReadThroughTheAggregator \
	TestSignalsEndAPlaygroundCleanly
nightly_tests := \
	TestABurstOfTenThousandPodsIsBoundWithoutLossOrOverfilling \
	TestManyPodsAreHeldAtOnceAndHoldUpNoOther \
	TestDemoShowsAFleetThatGrowsAndShrinks \
	TestAFleetGrowsToTwoHundredMachinesAndShrinksToNothing \
	TestAFleetBuysAndReleasesWhatItsSimulationDoes \
	TestFiveHundredPodsMoveAFewAtATime \
	TestWhatTheStockDeschedulerEvictsMoves \
	TestWhatKarpenterDrainsMoves \
	TestWhereverKarpenterIsKilledAmongItsWritesNothingIsBoughtTwiceOrForgotten \
	TestAFleetHoldsWhileKarpenterIsUpgradedAndContinues \
	TestAFullHostIsAMachineThatNeverComes \
	TestNovaComputeIsRestartedAndServersCome \
	TestATokenThatExpiresIsRenewed \
	TestATokenThatIsRevokedIsRenewed \
	TestACloudUnderLoadIsAskedAgain \
	TestTenServersAskedForAtOnceAreTen \
	TestAFleetContinuesWhenItsQuotaIsRaised \
	TestWhatEndsTheScriptEndsTheServices \
	TestAFleetBuysTheNextBestWhenNoHostTakesTheBest \
	TestARealNodeIsProbedAndPodsMoveByWhatIsLearned \
	TestAJobOfTwentyChainsIsMovedTwiceAndEveryChainIsWhole \
	TestAgentsAreKilledAtEveryStep \
	TestACRIUThatHangsDoesNotKeepItsContainerFrozen \
	TestContainerContinuesAfterItWasFrozenForTwoMinutes \
	TestIdleAgentUsesLittleCPU \
	TestAJobRunsOnAllNodesAndEveryChainIsWhole \
	TestContainersContinueWithoutContainerdAndKubelet \
	TestANodeThatWasKilledJoinsAgain \
	TestAProgramOfANodeIsKilledAndStartedAgain \
	TestNothingIsLeftOfAClusterWhoseProcessIsEnded

# only LIST: the regular expression of the tests in it.
empty :=
space := $(empty) $(empty)
only = '^($(subst $(space),|,$(strip $(1))))$$'

# What shares memory between goroutines, without the scheduler, of which a build with the
# race detector takes long.
concurrency := \bgo func\b|\bgo [a-zA-Z.]+\(|\.Go\(|"sync"|"sync/atomic"
race_pkgs    = $$(grep -rlE '$(concurrency)' --include='*.go' autoscaler cli descheduler energy internal lab moves | xargs -n 1 dirname | sort -u \
	| grep -vE '^lab/(baseline|playground|policy|replay|sim)(/|$$)' | sed 's|^|./|')

##@ Build and run

build: $(addprefix $(BIN)/,$(BINARIES) $(LOCAL) $(CHILDREN)) ## Build all programs and what the playground runs, into bin/.

.PHONY: $(addprefix $(BIN)/,$(BINARIES) $(LOCAL) $(CHILDREN))
$(addprefix $(BIN)/,$(BINARIES) $(LOCAL)): # the go command knows best what is stale
	$(GO_BUILD) -o $@ ./cmd/$(@F)

$(BIN)/kwok: # a module of its own: it needs older Kubernetes libraries than ours
	$(call built_in,lab/playground/kwok) sigs.k8s.io/kwok/cmd/kwok

.PHONY: $(BIN)/kubectl
$(BIN)/kubectl: # that of the Kubernetes that Supercargo is built with, for tests
	go build -buildvcs=false -ldflags "$(K8S_LDFLAGS)" -o $@ k8s.io/kubernetes/cmd/kubectl

$(BIN)/cluster-api: # a module of its own too: it needs later ones
	hack/build-cluster-api.sh $@

# The control plane of another version, and kube-scheduler for it. Cold, each takes as long
# as a first build.
k8s_build     = $(with_go_$(1)) go build -buildvcs=false $(build_$(1)) -ldflags "$(call k8s_ldflags,$(word 2,$(build_$(1))))$(if $(2), $(2))"
K8S_PROGRAMS := kube-apiserver kube-controller-manager kube-scheduler
k8s_built     = $(foreach v,$(K8S_BUILT) $(K8S_LATER) $(K8S_NEXT),$(BIN)/kubernetes/$(v)/$(1))

.PHONY: kube-schedulers $(foreach p,$(K8S_PROGRAMS),$(call k8s_built,$(p))) $(addprefix kube-scheduler-,$(K8S_LATER) $(K8S_NEXT))
kube-schedulers: $(addprefix kube-scheduler-,$(K8S_LATER)) ## Build kube-scheduler for later versions of Kubernetes, into bin/kubernetes/VERSION/ (kube-scheduler-1.37: for one).
$(addprefix kube-scheduler-,$(K8S_LATER) $(K8S_NEXT)): kube-scheduler-%: $(BIN)/kubernetes/%/kube-scheduler
k8s_pkg_kube-scheduler          := ./cmd/kube-scheduler
k8s_pkg_kube-apiserver          := k8s.io/kubernetes/cmd/kube-apiserver
k8s_pkg_kube-controller-manager := k8s.io/kubernetes/cmd/kube-controller-manager
k8s_flags_kube-scheduler         = $(OUR_LDFLAGS)
$(foreach p,$(K8S_PROGRAMS),$(call k8s_built,$(p))): $(BIN)/kubernetes/%:
	$(call k8s_build,$(*D),$(k8s_flags_$(*F))) -o $@ $(k8s_pkg_$(*F))

# The command line compiles in three minutes, and shows something while the rest compiles for longer.
EXAMPLE_DUMP := cmd/supercargo/cli/testdata/dump.json

demo: ## Build everything and show Supercargo at work on this machine; first the bill of an example cluster.
	@hack/build-programs.sh "$(MAKE) --no-print-directory" $(BIN)/supercargo
	$(BIN)/supercargo audit -f $(EXAMPLE_DUMP)
	@hack/build-programs.sh "$(MAKE) --no-print-directory" $(addprefix $(BIN)/,$(filter-out supercargo runc-supercargo,$(BINARIES)) $(LOCAL) $(CHILDREN))
	$(BIN)/supercargo demo

##@ Test

check: export GOGC := 50
check: export GOMEMLIMIT := 3GiB
check: $(TOOLS)/golangci-lint ## Check what has changed since main (BASE=commit): build, import directions and words, tests of what changed and of what imports it, lint; two minutes at most.
	@NOT_UNIT='$(not_unit)' LINT=$< hack/check.sh

test: test-unit test-first ## Run the unit tests and each program once against a real API server: Go, make and git are enough.
	@echo "Left out: the other integration tests, e2e tests, and what needs Chromium, Debian's packages or root. make test-all runs everything."

test-all: test test-tools test-integration e2e e2e-workers e2e-openstack e2e-nodes verify images test-nightly ## Run everything (Debian 12, root; takes hours).

test-nightly: test-integration-nightly test-kubernetes test-kubernetes-nightly e2e-openstack-nightly e2e-nodes-nightly e2e-nodes-older-containerd e2e-install e2e-scheduling e2e-vm test-books test-thorough test-race test-peers lint-peers test-vendor test-browser e2e-replicas e2e-commands chaos chaos-nodes soak-migration conformance ## Run the slow tests that rarely fail (Debian 12, root; also needs chromium, jq, nginx and gcc).

test-unit: $(TOOLS)/gotestsum | $(DIST) ## Run the tests that need nothing but Go.
	$(call go_test,test-unit,$(unit_pkgs))

test-books: $(TOOLS)/gotestsum | $(DIST) ## Audit the simulator's runs of 400 random scenarios; test-unit does 40.
	$(call go_test,test-books,-run TestBooksBalance ./lab/sim -scenarios 400)

test-thorough: $(TOOLS)/gotestsum $(addprefix $(BIN)/,$(CHILDREN) kubectl karpenter) | $(DIST) ## Have the autoscaler and the descheduler die before and after every write, and meet the faults of four seeds; simulate 200 recorded clusters. test-unit and test-integration do parts of it.
	$(call go_test,test-thorough,-run '^(TestWhereverTheProcessDiesTheOutcomeIsTheSame|TestFaultsOfTheAPIServerDelayAndChangeNothing)$$' ./autoscaler/fleet -thorough)
	$(call go_test,test-thorough-recordings,-run '^TestEveryRecordedClusterIsSimulatedUnderEveryPolicy$$' ./cmd/supercargo-lab/cli -recordings 200)
	$(with_bin) $(call go_test,test-thorough-killed,-p 1 -run '^TestWherever(It|Karpenter)IsKilled' ./test/integration/{nodefleet,nodeclaims,migration} -kill-before)

test-race: $(TOOLS)/gotestsum | $(DIST) ## Run the tests of concurrent code with the race detector (needs a C compiler).
	CGO_ENABLED=1 nice $(call go_test,test-race,-race $(race_pkgs)) # other tests may be waiting for something

test-tools: $(TOOLS)/gotestsum | $(DIST) ## Run the tests of the repository's own tools.
	cd tools && $(call go_test,test-tools,./...)

test-peers: $(TOOLS)/gotestsum $(addprefix $(BIN)/,$(PEERS)) | $(DIST) ## Run the tests of the programs that run others' planners on our inputs.
	cd test/peers/karpenter && $(call go_test,test-peers,./...)
	export $(newer_go) && cd test/peers/karpenter-live && $(call go_test,test-peers-live,./...)

test-browser: build $(TOOLS)/gotestsum | $(DIST) ## Test HTML reports, the dashboard, also of the demo, and the site in Chromium (CHROMIUM=path); pictures in dist/browser/.
	$(MAKE) --no-print-directory site SITE_URL=/
	$(with_bin) $(call go_test,test-browser,-tags browser -count 1 ./test/browser)

pictures: ## Take the documentation's pictures of the dashboard in Chromium (CHROMIUM=path).
	go test -tags browser -count 1 -run '^TestThePictureOfTheDashboardIsSmall$$' ./test/browser -pictures $(abspath docs/pictures)

test-first: $(TOOLS)/gotestsum $(addprefix $(BIN)/,$(CHILDREN) kubectl) | $(DIST) ## Run the integration tests that show each program at work once.
	$(with_bin) $(call go_test,test-first,-p 3 -run $(call only,$(first_tests)) \
		$(first_pkgs))

# The tests of NodeFleets have the machine to themselves: with one control plane they take most
# of two cores already.
test-integration: test-integration-nodefleet test-integration-rest ## Run the tests against a real API server, started in process, but for the nightly ones.

test-integration-rest: $(BIN)/karpenter
test-integration-nodefleet test-integration-rest: $(TOOLS)/gotestsum $(TOOLS)/helm $(TOOLS)/promtool $(addprefix $(BIN)/,$(CHILDREN) kubectl) | $(DIST)
	$(with_tools) $(call go_test,$@,-p $(AT_ONCE) -skip $(call only,$(nightly_tests) $(ran_before)) $(these_pkgs))

test-integration-nodefleet: these_pkgs = ./test/integration/nodefleet
test-integration-rest:      these_pkgs = ./test/integration/playground $$(go list ./... | grep -E '$(integration)' | grep -v /nodefleet)

# What test-integration leaves out besides: CI has run the first tests already.
RAN_FIRST  ?=
ran_before  = $(if $(RAN_FIRST),$(first_tests))

# How many control planes test-integration-rest runs at once.
AT_ONCE ?= 2

test-integration-nightly: $(TOOLS)/gotestsum $(addprefix $(BIN)/,$(CHILDREN) kubectl karpenter karpenter-older $(PEERS)) | $(DIST)
	$(with_bin) $(call go_test,test-integration-nightly,-p 1 -run $(call only,$(nightly_tests)) $(integration_pkgs))

# Of a version: the unit tests of the scheduler, with its libraries; the scheduler with each
# configuration on its control plane; and there the other programs, which are built once.
# The playground's own tests say how the built-in control plane ends. on_kubernetes has the
# integration tests run on that of version $*.
k8s_tests      = $(addprefix $(1)-,$(K8S_BUILT) $(K8S_LATER))
on_kubernetes  = SUPERCARGO_KUBERNETES="$(abspath $(BIN))/kubernetes/$*" $(with_bin)
k8s_units      = ./plugins/... ./internal/cluster/gang ./internal/cluster/constraint
k8s_first     := $(filter-out TestSignalsEndAPlaygroundCleanly,$(first_tests))
k8s_needs     := $(TOOLS)/gotestsum $(addprefix $(BIN)/,$(CHILDREN) kubectl) $(foreach p,$(K8S_PROGRAMS),$(BIN)/kubernetes/%/$(p))

.PHONY: test-kubernetes test-kubernetes-nightly $(call k8s_tests,test-kubernetes) test-kubernetes-$(K8S_NEXT) $(call k8s_tests,test-kubernetes-nightly)
test-kubernetes: $(call k8s_tests,test-kubernetes) test-kubernetes-$(K8S_NEXT) ## Test kube-scheduler for each version of Kubernetes on its control plane, and there each program once (test-kubernetes-1.37: one version).
$(call k8s_tests,test-kubernetes): test-kubernetes-%: $(k8s_needs) | $(DIST)
	$(call go_test,$@-unit,$(build_$*) -p 1 $(k8s_units))
	$(on_kubernetes) $(call go_test,$@,-tags kubernetes -count 1 ./test/e2e/kubernetes)
	$(on_kubernetes) $(call go_test,$@-first,-p 1 -count 1 -run $(call only,$(k8s_first)) \
		$(first_pkgs))

# Without a control plane: the unit tests.
test-kubernetes-$(K8S_NEXT): test-kubernetes-%: $(TOOLS)/gotestsum $(BIN)/kubernetes/%/kube-scheduler | $(DIST)
	$(with_go_$*) $(call go_test,$@-unit,$(build_$*) -p 1 $(k8s_units))

# All of those suites, but for what adds plugins of tests to the built-in scheduler.
test-kubernetes-nightly: $(addprefix test-kubernetes-nightly-,$(K8S_LATER))
$(call k8s_tests,test-kubernetes-nightly): test-kubernetes-nightly-%: $(k8s_needs) | $(DIST)
	$(on_kubernetes) $(call go_test,$@,-p 1 -count 1 -skip $(call only,$(nightly_tests)) \
		./test/integration/{adapter,consolidation,eviction,migration,nodefleet,profiler,replica})

e2e: build $(TOOLS)/gotestsum $(TOOLS)/kustomize | $(DIST) ## Run the built binaries end to end.
	SUPERCARGO_BIN="$(abspath $(BIN))" $(call go_test,e2e,-tags e2e -count 1 ./test/e2e/...)

e2e-commands: build $(BIN)/kubectl $(TOOLS)/gotestsum $(TOOLS)/helm | $(DIST) ## Run the commands of the documentation on playgrounds (also wants jq).
	SUPERCARGO_BIN="$(abspath $(BIN))" $(call go_test,e2e-commands,-tags commands -count 1 ./test/e2e/commands)

conformance: $(TOOLS)/etcd | $(DIST) ## Run Kubernetes' own scheduler integration suite with our profile and with the stock one; a table of differences (takes up to an hour).
	PATH="$(CURDIR)/$(TOOLS):$$PATH" go run -buildvcs=false ./test/conformance -out $(DIST)/conformance

# Compiled before, so that the services do not wait for it. One command: what ends make
# ends the script too.
e2e-openstack: suite = -skip $(call only,$(nightly_tests))
e2e-openstack-nightly: suite = -run $(call only,$(nightly_tests))
e2e-openstack: ## Test against a real OpenStack, which it installs, starts and stops (Debian 12, root).
e2e-openstack e2e-openstack-nightly: $(TOOLS)/gotestsum $(BIN)/kwok | $(DIST)
	go test -c -tags openstack -o /dev/null ./test/e2e/openstack
	$(with_bin) hack/openstack/openstack.sh run $(call go_test,$@,-tags openstack -count 1 -parallel 3 -timeout 60m $(suite) ./test/e2e/openstack)

# Where nodes leave their logs.
e2e-nodes e2e-nodes-nightly e2e-nodes-older-containerd e2e-install e2e-upgrade e2e-scheduling soak-migration chaos-nodes bench-migration: export NODES_LOGS := $(abspath $(DIST))/nodes

nodes-install: ## Build CRIU, runc, containerd and kubelet for real nodes (Debian 12, root).
	hack/nodes/nodes.sh install

e2e-nodes e2e-nodes-older-containerd: suite = -p 2 -skip $(call only,$(nightly_tests)) # each package starts nodes of its own
e2e-nodes-nightly: suite = -p 1 -run $(call only,$(nightly_tests)) # some measure how much CPU they use
e2e-nodes: ## Test on real nodes, which it builds, starts and stops (Debian 12, root).
e2e-nodes-older-containerd: export NODES_CONTAINERD = 2.3
e2e-nodes-older-containerd: ## Do the tests of e2e-nodes on nodes with containerd 2.3 (Debian 12, root).
e2e-nodes e2e-nodes-nightly e2e-nodes-older-containerd: $(BIN)/node-agent $(BIN)/descheduler $(BIN)/kubectl $(TOOLS)/gotestsum | $(DIST)
	hack/nodes/nodes.sh run $(call go_test,$@,-tags nodes -count 1 -timeout 40m $(suite) ./test/e2e/nodes/...)

e2e-install: $(addprefix $(BIN)/,$(CHILDREN) kubectl) $(TOOLS)/gotestsum $(TOOLS)/helm | $(DIST) ## Install the images and the charts on a cluster that kubeadm makes on this machine, use, upgrade and remove them (Debian 12, root).
	$(MAKE) --no-print-directory images IMAGE_TAG=v0.1.0
	$(call on_kubeadm,$@,60m,-skip '^($(k8s_suite)|$(chaos_nodes)|$(upgrade))$$' ./test/e2e/install/...)

# on_kubeadm NAME,TIMEOUT,FLAGS: tests on a cluster that kubeadm makes.
on_kubeadm  = $(with_tools) hack/nodes/nodes.sh run-kubeadm $(call go_test,$(1),-tags install -count 1 -timeout $(2) $(3))
k8s_suite   := TestKubernetesOwnTestsOfItsSchedulerPass
chaos_nodes := TestNothingIsLostOnRealNodesWhateverFails
upgrade     := TestAPodMovesDuringAnUpgradeFromTheVersionBeforeAndARollback

# The version before is built from its own sources.
UPGRADE_FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null)
BEFORE       := $(abspath $(DIST))/before

e2e-upgrade: $(BIN)/kubectl $(TOOLS)/gotestsum $(TOOLS)/helm | $(DIST) ## Upgrade such a cluster from an earlier version (UPGRADE_FROM, by default the last tag) and roll back, while pods move (Debian 12, root).
	@test -n "$(UPGRADE_FROM)" || { echo "There is no tag to upgrade from: set UPGRADE_FROM to a revision." >&2; exit 2; }
	$(MAKE) --no-print-directory images IMAGE_TAG=v0.1.0
	rm -rf $(BEFORE) && mkdir $(BEFORE) && git archive "$(UPGRADE_FROM)" | tar -x -C $(BEFORE)
	$(MAKE) --no-print-directory -C $(BEFORE) images VERSION="$(UPGRADE_FROM)" IMAGE_TAG=before
	$(call on_kubeadm,$@,60m,-run '^$(upgrade)$$' ./test/e2e/install -before $(BEFORE))

e2e-scheduling: $(BIN)/kubectl $(TOOLS)/gotestsum $(TOOLS)/helm | $(DIST) ## Run the tests of Kubernetes that are named [sig-scheduling] on such a cluster, with our scheduler in place of its own; what differs (half an hour or more).
	$(MAKE) --no-print-directory images IMAGE_TAG=v0.1.0
	$(with_tools) hack/nodes/nodes.sh run-suite $(call go_test,$@,-tags install -count 1 -timeout 4h -run '^$(k8s_suite)$$' ./test/e2e/install)

e2e-vm: export VMS_LOGS := $(abspath $(DIST))/vms
e2e-vm: $(BIN)/node-agent $(BIN)/descheduler $(TOOLS)/gotestsum | $(DIST) ## Test moves between Debian virtual machines with control groups v2, whose power it cuts (Debian 12, root; emulated: needs an idle machine, and an hour or more).
	hack/nodes/nodes.sh run hack/vms/vms.sh run $(call go_test,$@,-tags vm -count 1 -timeout 4h ./test/e2e/vm/...)

e2e-workers: $(TOOLS)/gotestsum $(addprefix $(BIN)/,$(CHILDREN)) | $(DIST) ## Test against a real makeflow, Work Queue manager and workers, on pools that grow and drain (Debian's coop-computing-tools and ncbi-blast+, root).
	$(with_bin) $(call go_test,e2e-workers,-tags workers -count 1 ./test/e2e/workers)

e2e-replicas: $(TOOLS)/gotestsum | $(DIST) ## Let laws scale real processes behind Debian's nginx (nginx, root); results in dist/replicas.json.
	$(call go_test,e2e-replicas,-tags replicas -count 1 ./test/e2e/replicas -report $(abspath $(DIST))/replicas.json)

KILL_SEED ?= 1
KILL_ONLY ?=

soak-migration: $(BIN)/node-agent $(BIN)/descheduler | $(DIST) ## Take every part of a migration away at every step on real nodes, under several kinds of Jobs (hours; KILL_SEED orders them, KILL_ONLY selects by name); results in dist/soak-migration.json.
	hack/nodes/nodes.sh run go test -tags nodes -count 1 -timeout 4h -v -run TestWhateverIsKilled ./test/e2e/nodes/kill \
		-kill-points 0 -kill-seed $(KILL_SEED) -kill-only "$(KILL_ONLY)" -kill-report $(abspath $(DIST))/soak-migration.json

CHAOS_SEED  ?= 1
CHAOS_LASTS ?= 10m
CHAOS_ONLY  ?=

# The programs as they ship, and what the playground runs.
CHAOS_NEEDS := $(addprefix $(BIN)/,autoscaler descheduler kube-scheduler node-agent $(CHILDREN))
chaos_test   = SUPERCARGO_BIN="$(abspath $(BIN))" $(with_bin) go test -tags chaos -count 1 -timeout 24h -v -run $(1) ./test/chaos -seed $(CHAOS_SEED)

chaos: $(CHAOS_NEEDS) | $(DIST) ## Inject one fault after another for CHAOS_LASTS (CHAOS_SEED selects them, CHAOS_ONLY is one kind), then replay the audit log; results in dist/chaos.json (root).
	rm -rf $(DIST)/chaos
	$(call chaos_test,TestNothingIsLostWhateverFails) -lasts $(CHAOS_LASTS) -only '$(CHAOS_ONLY)' -out $(abspath $(DIST))/chaos -report $(abspath $(DIST))/chaos.json

chaos-nodes: $(BIN)/kubectl $(TOOLS)/gotestsum $(TOOLS)/helm | $(DIST) ## The same on a cluster that kubeadm makes on this machine, with the images and charts, while pods move; results in dist/chaos-nodes.json (Debian 12, root).
	$(MAKE) --no-print-directory images IMAGE_TAG=v0.1.0
	$(call on_kubeadm,$@-tests,24h,-run '^$(chaos_nodes)$$' ./test/e2e/install \
		-chaos-seed $(CHAOS_SEED) -chaos-lasts $(CHAOS_LASTS) -chaos-only "$(CHAOS_ONLY)" -chaos-report $(abspath $(DIST))/chaos-nodes.json)

# SOAK_LASTS is another for make soak-consolidation.
soak: SOAK_LASTS := 1h
soak: $(CHAOS_NEEDS) | $(DIST) ## Run the binaries for SOAK_LASTS, and fail if memory, goroutines or watches grow; JSON in dist/soak.json (root).
	rm -rf $(DIST)/soak
	$(call chaos_test,TestMemoryGoroutinesAndWatchesStayFlat) -lasts $(SOAK_LASTS) -out $(abspath $(DIST))/soak -report $(abspath $(DIST))/soak.json

test-vendor: ## Build kube-scheduler from a vendored copy of this tree, without network.
	hack/test-vendor.sh

##@ Document

# Where the site is served, and optionally the address of the source files on a code host.
SITE_URL    ?= https://supercargo.dev/
SITE_SOURCE ?=
hugo         = HUGO_CACHEDIR="$(abspath $(DIST))/hugo" HUGO_PARAMS_SOURCE="$(SITE_SOURCE)" $(TOOLS)/hugo $(1) --config hack/site/hugo.yaml --noBuildLock

site: $(TOOLS)/hugo | $(DIST) ## Build the documentation as a site in dist/site/, for SITE_URL; a dead link fails (SITE_SOURCE: address of the source files on a code host).
	$(call hugo,) --destination $(abspath $(DIST))/site --cleanDestinationDir --panicOnWarning --quiet --baseURL "$(SITE_URL)"
	go run -buildvcs=false ./hack/site/links -root $(DIST)/site -at "$(SITE_URL)"

site-serve: $(TOOLS)/hugo | $(DIST) ## Serve the site at http://localhost:1313, and again after each change of a page.
	$(call hugo,server) --destination $(abspath $(DIST))/site-served

##@ Measure

measure      = go run -buildvcs=false ./test/measure
BENCH_COUNT ?= 10

bench: $(TOOLS)/benchstat | $(DIST) ## Run the Go benchmarks, BENCH_COUNT times; dist/bench.txt is for benchstat.
	go test -run '^$$' -bench . -benchmem -count $(BENCH_COUNT) $(unit_pkgs) | tee $(DIST)/bench.txt
	$(TOOLS)/benchstat $(DIST)/bench.txt

WORKLOADS ?= .

BENCH_KUBERNETES ?= $(K8S_BUILT)
# The API server of scheduler_perf reads files beside its sources, which it knows relative to the module cache.
beside_sources = TEST_SRCDIR="$$(go env GOMODCACHE)" TEST_WORKSPACE=.

bench-scheduler: $(TOOLS)/etcd | $(DIST) ## Measure the whole scheduler with Kubernetes' scheduler_perf (WORKLOADS=regexp, BENCH_KUBERNETES=1.37: libraries of that version); JSON in dist/schedulerperf/.
	go test -c $(build_$(BENCH_KUBERNETES)) -o $(BIN)/schedulerperf.test ./test/schedulerperf
	PATH="$(CURDIR)/$(TOOLS):$$PATH" $(beside_sources) $(measure) scheduler --binary $(BIN)/schedulerperf.test --out $(DIST)/schedulerperf --only '$(WORKLOADS)'

bench-simulate: $(BIN)/supercargo-lab | $(DIST) ## Measure time and memory of supercargo simulate; JSON in dist/simulate.json.
	$(measure) simulate --binary $(BIN)/supercargo-lab | tee $(DIST)/simulate.json

POLICIES          ?= 1000
POLICIES_INTERVAL ?= 250s
POLICIES_LAST     ?= 6m

bench-replicas: $(BIN)/autoscaler | $(DIST) ## Measure what POLICIES ReplicaPolicies cost one autoscaler; JSON in dist/policies.json.
	$(measure) replicas --binary $(BIN)/autoscaler --policies $(POLICIES) --interval $(POLICIES_INTERVAL) --lasts $(POLICIES_LAST) | tee $(DIST)/policies.json

ROUND_FLAGS ?=

bench-round: | $(DIST) ## Measure one round of a NodeFleet on 1,000 and 5,000 nodes (ROUND_FLAGS=--help); JSON in dist/round.json.
	$(measure) round $(ROUND_FLAGS) | tee $(DIST)/round.json

PLAN_ROUNDS ?= 3

bench-plan: $(BIN)/supercargo $(BIN)/karpenter-peer | $(DIST) ## Compare plans with those of greedy and of Karpenter's scheduler; JSON in dist/plan.json.
	$(measure) plan --supercargo $(BIN)/supercargo --karpenter $(BIN)/karpenter-peer --rounds $(PLAN_ROUNDS) | tee $(DIST)/plan.json

GPUSHARE_FLAGS ?=

bench-gpushare: ## Fill the GPU cluster of the openb trace by each policy, and print what is allocated and what is unusable as a table.
	$(measure) gpushare $(GPUSHARE_FLAGS)

DISRUPTION_FLAGS ?=

bench-disruption: $(BIN)/karpenter-peer | $(DIST) ## Compare the consolidation of a NodeFleet with Karpenter's disruption on 300, 1,000 and 5,000 half-empty nodes (DISRUPTION_FLAGS=--help); a table, and JSON in dist/disruption.json.
	$(measure) disruption --karpenter $(BIN)/karpenter-peer $(DISRUPTION_FLAGS) | tee $(DIST)/disruption.json

.PHONY: $(addprefix $(BIN)/,$(PEERS))
$(addprefix $(BIN)/,$(PEERS)): $(BIN)/%-peer: # modules of their own: nothing here depends on them
	$(call built_in,test/peers/$*) .

AUTOSCALER_ROUNDS ?= 3
AUTOSCALER_FLAGS  ?=

bench-autoscalers: $(addprefix $(BIN)/,autoscaler $(CHILDREN) karpenter karpenter-scaled) | $(DIST) ## Compare NodeFleet and the real Karpenter on the same pods, live (AUTOSCALER_FLAGS=--help); a table, and JSON in dist/autoscalers.json.
	$(with_bin) $(measure) autoscalers --karpenter-source "$$($(newer_go) go -C $(KARPENTER) list -m -f '{{.Dir}}' sigs.k8s.io/karpenter)" \
		--rounds $(AUTOSCALER_ROUNDS) $(AUTOSCALER_FLAGS)

# Karpenter's operator with its kwok provider, as it comes and with its constant waits cut
# for compressed time. Its sources are not ours: the second is built from a changed copy.
KARPENTER := test/peers/karpenter-live
# Karpenter may need a newer Go than Supercargo. The go command fetches the one that the module names.
newer_go  := GOTOOLCHAIN=auto

.PHONY: $(BIN)/karpenter $(BIN)/karpenter-older $(BIN)/karpenter-scaled
$(BIN)/karpenter:
	$(newer_go) $(call built_in,$(KARPENTER)) sigs.k8s.io/karpenter/kwok
$(BIN)/karpenter-older: # the version of the peer, to upgrade from
	$(newer_go) $(call built_in,test/peers/karpenter) sigs.k8s.io/karpenter/kwok
$(BIN)/karpenter-scaled: | $(DIST)
	rm -rf $(DIST)/karpenter
	$(newer_go) go -C $(KARPENTER) run -buildvcs=false . -factor 30 -out $(abspath $(DIST))/karpenter
	$(newer_go) $(call built_in,$(DIST)/karpenter) ./kwok

SOAK_NODES ?= 200
SOAK_LASTS ?= 10m
SOAK_SEED  ?= 1

soak-consolidation: $(BIN)/kwok $(BIN)/descheduler-peer | $(DIST) ## Compare consolidation with the stock descheduler on nodes that keep changing; a table, and JSON in dist/consolidation.json.
	$(with_bin) go test -tags soak -count 1 -timeout 3h -v -run TestNodesAreEmptied ./test/integration/consolidation -nodes $(SOAK_NODES) -lasts $(SOAK_LASTS) \
		-pace 1 -seed $(SOAK_SEED) -stock $(abspath $(BIN))/descheduler-peer -report $(abspath $(DIST))/consolidation.json

PROBE_ROUNDS ?= 7
PROBE_QUIET  ?= 0

bench-probe: $(BIN)/node-agent | $(DIST) ## Measure how well profiles learned from probes under two CPU limits predict other sizes (root); JSON in dist/probe.json.
	$(measure) probe --node-agent $(BIN)/node-agent --rounds $(PROBE_ROUNDS) --quiet $(PROBE_QUIET) | tee $(DIST)/probe.json

bench-openstack: | $(DIST) ## Measure creating 50 OpenStack servers and listing 999 (Debian 12, root); JSON in dist/openstack.json.
	go test -c -tags openstack,measure -o $(DIST)/openstack-speed.test ./test/e2e/openstack
	OPENSTACK_NICE=0 OPENSTACK_MEASURED=$(abspath $(DIST))/openstack.json hack/openstack/openstack.sh run $(DIST)/openstack-speed.test -test.v -test.run TestSpeed -test.timeout 2h

bench-migration: $(BIN)/node-agent $(BIN)/descheduler | $(DIST) ## Measure moves of 0 to 1024 MiB between real nodes (Debian 12, root); JSON in dist/migration.json.
	hack/nodes/nodes.sh run go test -tags nodes -count 1 -timeout 1h -v -run '^$$' -bench BenchmarkMigration -benchtime 9x ./test/e2e/nodes/migration \
		-bench-report $(abspath $(DIST))/migration.json

HTAS_SEEDS ?= 10

experiments: $(BIN)/supercargo $(BIN)/supercargo-lab | $(DIST) ## Run the experiments of the HTAS paper, all policies and seeds; tables, JSON and pages in dist/experiments/.
	mkdir -p $(DIST)/experiments
	for pattern in stable growing cycle on-off; do \
		$(BIN)/supercargo simulate -f test/scenarios/htas-$$pattern.yaml --repeat $(HTAS_SEEDS) -o json \
			--report $(DIST)/experiments/$$pattern.html >$(DIST)/experiments/$$pattern.json; \
		$(BIN)/supercargo simulate -f test/scenarios/htas-$$pattern.yaml --repeat $(HTAS_SEEDS); done

sensitivity: ## Vary the parameters that the HTAS paper does not specify, one at a time; a table of savings, takes half an hour.
	$(measure) sensitivity --seeds $(HTAS_SEEDS)

consolidation: ## Run the experiments of the HTAS paper with pods that leave emptied machines by eviction, migration or both; a table, takes minutes.
	$(measure) consolidation --seeds $(HTAS_SEEDS)

##@ Check

verify: verify-generated verify-imports verify-modules verify-manifests lint ## Check generated files, import directions, words, modules, manifests and style.

# The linters also check all of Kubernetes; by default they need 6 GB for that.
lint: export GOGC := 50
lint: export GOMEMLIMIT := 3GiB
lint: $(TOOLS)/golangci-lint ## Run gofmt, go vet and the linters of .golangci.yml.
	$(TOOLS)/golangci-lint run ./...
	cd tools && ../$(TOOLS)/golangci-lint run --config ../.golangci.yml ./...

lint-peers: export GOMEMLIMIT := 3GiB
lint-peers: $(TOOLS)/golangci-lint ## Run the linters on the programs that run others' planners, each with all that it is built from.
	for peer in test/peers/*/; do (cd "$$peer" && $(abspath $(TOOLS))/golangci-lint run --config $(abspath .golangci.yml) ./...); done

verify-generated: $(TOOLS)/controller-gen $(TOOLS)/kustomize $(TOOLS)/helm
	hack/verify-generated.sh

verify-imports:
	go test ./test/imports ./test/words

verify-modules:
	for dir in . tools tools/{helm,promtool,hugo} lab/playground/{kwok,cluster-api} hack/nodes/runtime/*/ test/peers/*/; do GOTOOLCHAIN=auto go -C "$$dir" mod tidy -diff; done
	hack/kubernetes-modules.sh -diff

modules: ## Regenerate the module files of later versions of Kubernetes, after a change of go.mod.
	hack/kubernetes-modules.sh

verify-manifests: $(TOOLS)/kustomize
	find manifests -name kustomization.yaml -printf '%h\n' | sort | while read -r dir; do \
		echo "kustomize build $$dir"; $(TOOLS)/kustomize build "$$dir" >/dev/null; done

# The chart has a value for each option of these.
CHART_PROGRAMS := autoscaler descheduler kube-scheduler metrics-adapter node-agent

# Programs whose options are in docs/reference/options.md.
REFERENCE_PROGRAMS := supercargo autoscaler descheduler metrics-adapter nginx-exporter node-agent

generate: $(TOOLS)/controller-gen $(TOOLS)/kustomize $(TOOLS)/helm $(addprefix $(BIN)/,$(sort $(CHART_PROGRAMS) $(REFERENCE_PROGRAMS) $(LOCAL))) ## Write deep-copy functions, the CRDs in manifests/crd/ and those of the playground, the reference pages of the documentation, and what charts and manifests have in common.
	$(TOOLS)/controller-gen object paths="{./api/...,./lab/playground/machines}"
	$(TOOLS)/controller-gen crd:generateEmbeddedObjectMeta=false paths=./api/v1alpha1/... output:crd:dir=manifests/crd
	$(TOOLS)/controller-gen crd:generateEmbeddedObjectMeta=false paths=./lab/playground/machines output:crd:dir=lab/playground/machines/crd
	hack/generate-cluster-api.sh
	hack/generate-karpenter.sh
	go run -buildvcs=false ./hack/chartoptions -schema manifests/helm/supercargo/values.schema.json $(addprefix $(BIN)/,$(CHART_PROGRAMS)) "evictions=$(BIN)/descheduler evictions" "node-meter=$(BIN)/node-agent meter" "dashboard=$(BIN)/supercargo dashboard"
	go run -buildvcs=false ./hack/metrics -page docs/exported-metrics.md
	go run -buildvcs=false ./hack/reference -out docs/reference $(addprefix $(BIN)/,$(REFERENCE_PROGRAMS))
	hack/generate-manifests.sh $(TOOLS)/helm

##@ Pack

vendor: ## Copy every dependency into vendor/, for builds without network.
	go mod vendor

images: $(addprefix image-,$(BINARIES)) ## Write container images to dist/images/; IMAGE_REPO, IMAGE_TAG and PLATFORM may be set.

.PHONY: $(addprefix image-,$(BINARIES))
$(addprefix image-,$(BINARIES)): image-%:
	$(on_platform) $(GO_BUILD) -o $(DIST)/$(PLATFORM)/$* ./cmd/$*
	$(call pack_image,$*,$*:$(IMAGE_TAG),$*)

# pack_image BINARY,NAME:TAG,FILE: writes an image of what was built for PLATFORM.
on_platform = GOOS=$(word 1,$(subst /, ,$(PLATFORM))) GOARCH=$(word 2,$(subst /, ,$(PLATFORM)))
pack_image  = go -C tools run -buildvcs=false ./images -binary $(abspath $(DIST))/$(PLATFORM)/$(1) -tag $(IMAGE_REPO)/$(2) \
	-version "$(VERSION)" -revision "$(REVISION)" -created $(COMMIT_TIME) -platform $(PLATFORM) -out $(abspath $(DIST))/images/$(3).tar

# Apart from images: cold, each takes as long as a first build.
.PHONY: images-kubernetes $(addprefix image-kube-scheduler-,$(K8S_LATER) $(K8S_NEXT))
images-kubernetes: $(addprefix image-kube-scheduler-,$(K8S_LATER)) ## Write the images of kube-scheduler for later versions of Kubernetes to dist/images/, tagged IMAGE_TAG-kubernetes1.36 and so on.
$(addprefix image-kube-scheduler-,$(K8S_LATER) $(K8S_NEXT)): image-kube-scheduler-%:
	$(on_platform) $(call k8s_build,$*,$(OUR_LDFLAGS)) -o $(DIST)/$(PLATFORM)/kubernetes/$*/kube-scheduler ./cmd/kube-scheduler
	$(call pack_image,kubernetes/$*/kube-scheduler,kube-scheduler:$(IMAGE_TAG)-kubernetes$*,kube-scheduler-kubernetes$*)

charts: $(TOOLS)/helm | $(DIST) ## Pack the Helm charts into dist/charts/.
	$(TOOLS)/helm package manifests/helm/supercargo manifests/helm/supercargo-crds --destination $(DIST)/charts

# What a release has: the command line for people's computers, the rest for nodes.
RELEASE_CLI      := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
RELEASE_PROGRAMS := linux/amd64 linux/arm64
RELEASE_DIR      ?= $(DIST)/release
RELEASE_BIN      ?= $(DIST)/release-bin
RELEASE_ARCHIVES ?= https://supercargo.dev/releases/$(VERSION)

release: release-binaries | $(DIST) ## Build everything that a release publishes in dist/release/ (VERSION=v1.2.3, IMAGE_REPO): archives, images, charts, manifests, bills of materials, sums.
	rm -rf $(RELEASE_DIR)
	go -C tools run -buildvcs=false ./release -version "$(VERSION)" -revision "$(REVISION)" -created $(COMMIT_TIME) -repository "$(IMAGE_REPO)" \
		-archives "$(RELEASE_ARCHIVES)" -source $(CURDIR) -binaries $(abspath $(RELEASE_BIN)) -out $(abspath $(RELEASE_DIR))
	cd $(RELEASE_DIR) && sha256sum --check --quiet SHA256SUMS

release-binaries:
	rm -rf $(RELEASE_BIN)
	for platform in $(RELEASE_CLI); do \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO_BUILD) -o $(RELEASE_BIN)/$$platform/ ./cmd/supercargo ./cmd/supercargo-lab; done
	for platform in $(RELEASE_PROGRAMS); do for program in $(filter-out supercargo,$(BINARIES)); do \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO_BUILD) -o $(RELEASE_BIN)/$$platform/$$program ./cmd/$$program; done; done
	$(foreach v,$(K8S_LATER),for platform in $(RELEASE_PROGRAMS); do \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(call k8s_build,$(v),$(OUR_LDFLAGS)) -o $(RELEASE_BIN)/$$platform/kube-scheduler-kubernetes$(v) ./cmd/kube-scheduler; done;)

# With an empty build cache, so that nothing of the first run is in the second.
verify-release: | $(DIST) ## Rebuild the release from scratch, and compare it with dist/release/ byte for byte (compiles all of Kubernetes eight times).
	rm -rf $(DIST)/release-cache
	GOCACHE=$(abspath $(DIST))/release-cache $(MAKE) release RELEASE_DIR=$(DIST)/release-again RELEASE_BIN=$(DIST)/release-bin-again
	diff -r $(RELEASE_DIR) $(DIST)/release-again && rm -rf $(DIST)/release-cache

clean: ## Remove bin/, dist/ and vendor/.
	rm -rf $(BIN) $(DIST) vendor

$(DIST):
	mkdir -p $@

##@ Help

help: ## Show this list.
	@awk -v first="build demo check test verify images test-all generate" ' \
		BEGIN { FS = ":.*## "; n = split(first, names, " "); for (i in names) used[names[i]] } \
		/^##@ / { group = "\n" substr($$0, 5) "\n" } \
		/^[a-z0-9-]+:.*## / { line = sprintf("  %-18s %s\n", $$1, $$2) } \
		/^[a-z0-9-]+:.*## / && $$1 in used { most[$$1] = line; next } \
		/^[a-z0-9-]+:.*## / { rest = rest group line; group = "" } \
		END { print "make <target>\n\nMost used"; for (i = 1; i <= n; i++) printf "%s", most[names[i]]; printf "%s", rest }' Makefile

# The tools are pinned in tools/go.mod and rebuilt when that changes. Three have modules of their own: what helm
# generates must not move with the libraries of the others, promtool is without the services that Prometheus
# finds targets by, and hugo without what compiles Sass and converts pictures.
tool_pkg_controller-gen := sigs.k8s.io/controller-tools/cmd/controller-gen
tool_pkg_kustomize      := sigs.k8s.io/kustomize/kustomize/v5
tool_pkg_gotestsum      := gotest.tools/gotestsum
tool_pkg_benchstat      := golang.org/x/perf/cmd/benchstat
tool_pkg_golangci-lint  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
tool_pkg_etcd           := go.etcd.io/etcd/server/v3
tool_pkg_helm           := helm.sh/helm/v4/cmd/helm
tool_pkg_hugo           := github.com/gohugoio/hugo
tool_pkg_promtool       := github.com/prometheus/prometheus/cmd/promtool
tool_flags_promtool     := -tags remove_all_sd #

$(addprefix $(TOOLS)/,controller-gen kustomize gotestsum benchstat golangci-lint etcd): $(TOOLS)/%: tools/go.mod
	$(call built_in,tools) $(tool_pkg_$*)
	touch $@

$(addprefix $(TOOLS)/,helm hugo promtool): $(TOOLS)/%: tools/%/go.mod
	$(call built_in,tools/$*,$(tool_flags_$*)) $(tool_pkg_$*)
	touch $@

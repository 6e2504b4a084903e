# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0

# Everything a contributor runs. `make help` lists it.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

CACHE   ?= $(CURDIR)/.cache
# Where image and release are written.
OUT     ?= out
export CGO_ENABLED ?= 0

# As a release is built (internal/release/build.go says why), so that nothing is
# compiled twice.
BUILD   := go build -trimpath -tags grpcnotrace,nri_no_wasm
LDFLAGS := -s -w -X plumbline.dev/plumbline/internal/version.Version=$(shell git describe --always --dirty 2>/dev/null || echo unknown)

##@ Use

demo: tools ## Boot a virtual A3 Ultra, run the mission's two pods, prove where they sit
	@go run -trimpath -tags grpcnotrace,nri_no_wasm ./hack/picture a3-ultragpu-8g
	@$(MAKE) build
	@bin/plumblab demo --cache "$(CACHE)"

demo-rdma: build ## Boot a node whose soft RoCE works in pods, run ib_write_lat and ib_write_bw between two
	@rc=0; bin/plumblab rdma --cache "$(CACHE)" --name rdma || rc=$$?; \
	bin/plumblab down --cache "$(CACHE)" --name rdma; exit $$rc

demo-egx: build ## Boot the machine of NVIDIA's article on the Network Operator, run its pods as printed
	@rc=0; bin/plumblab egx --cache "$(CACHE)" --name egx || rc=$$?; \
	bin/plumblab down --cache "$(CACHE)" --name egx; exit $$rc

demo-mpi: build ## Run MPIJobs with Kubeflow's MPI operator, whose workers claim a NIC each (needs root)
	@rc=0; bin/plumblab mpi --cache "$(CACHE)" --name mpi || rc=$$?; \
	bin/plumblab down --cache "$(CACHE)" --name mpi; exit $$rc

demo-bench: build ## Run plumbline bench on a node on this host and on one with soft RoCE, and draw what it measured (needs root)
	@rc=0; for what in measure rdma; do \
		bin/plumblab $$what --cache "$(CACHE)" --name demobench-$$what || rc=$$?; \
		bin/plumblab down --cache "$(CACHE)" --name demobench-$$what; \
	done; exit $$rc

mission: build ## Type the commands of the mission's documents on their machines (ONLY=a3,tpu for some; needs root)
	@bin/plumblab mission --cache "$(CACHE)" --name mission $(if $(ONLY),--only $(ONLY))

build: tools ## Build the command line tools into bin/
	@mkdir -p bin
	@$(BUILD) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...
	@cd lab && $(BUILD) -o ../bin/ ./cmd/plumblab

image: tools ## Pack the image, for amd64 and arm64, into out/image (PUSH=HOST/NAME uploads it)
	@go run -trimpath ./hack/release -out $(OUT) $(if $(PUSH),-push $(PUSH)) image

image-bench: build ## Pack the tools of plumbline bench into an image (IMAGE=NAME; BASE=IMAGE with CUDA builds those of GPUs on it)
ifdef BASE
	@engine=$$(command -v docker || command -v podman) || { echo "want docker or podman to build on $(BASE)" >&2; exit 1; }; \
	"$$engine" build --build-arg BASE=$(BASE) -t $(or $(IMAGE),plumbline-bench-cuda) -f hack/bench-cuda.Containerfile hack
else
	@bin/plumblab bench-image --cache "$(CACHE)" --out $(OUT)/bench-image.tar $(if $(IMAGE),--reference $(IMAGE))
endif

release: tools ## Make image, chart, manifests, command line tools and offline bundle in out/release (IMAGE=HOST/NAME)
	@go run -trimpath ./hack/release -out $(OUT) $(if $(IMAGE),-repository $(IMAGE)) all

tools:
	@command -v go >/dev/null || { echo "go is missing: install Go 1.26 or newer, from your distribution or go.dev" >&2; exit 1; }

##@ Check

test: ## Run every test, also in a virtual machine and on a cluster under faults; prints the slowest
	@hack/test

# On this host a pod takes seconds; what needs PCI functions takes NODE=vm.
soak: build ## Put 10,000 pods through random faults (CYCLES=N SEED=N repeat a run, NODE=vm|host)
	@node=$(or $(NODE),$$(bin/plumblab check-host >/dev/null 2>&1 && echo host || echo vm)); \
	bin/plumblab soak --cache "$(CACHE)" --name soak --node $$node $$([ $$node = vm ] || echo --nodes 4) \
		--cycles $(or $(CYCLES),10000) $(if $(SEED),--seed $(SEED))
	@bin/plumblab down --cache "$(CACHE)" --name soak

nightly: ## Run for two hours what is too long for every change: 300 pods under faults, demos, DRANET beside us (RESUME=1 goes on)
	@hack/nightly

lint: ## Look for modules that are not tidy, and run golangci-lint over both
	@hack/lint

bench: build ## Run the benchmarks, print figures beside their targets, write out/bench.json
	@hack/bench

generate: ## Rewrite generated files: golden renderings, goldens of tests (GOLDENS=no leaves those)
	@GOLDENS=$(GOLDENS) hack/generate

##@ Clean

clean: ## Remove what was built here (the lab is stopped first; its cache stays)
	@if [ -x bin/plumblab ]; then bin/plumblab down --cache "$(CACHE)"; fi
	@rm -rf bin out

distclean: clean ## Remove the lab's cache as well
	@rm -rf "$(CACHE)"

help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools demo demo-rdma demo-egx demo-mpi demo-bench mission build image image-bench release test soak nightly lint bench generate clean distclean help

# SPDX-License-Identifier: Apache-2.0
#
# The front door. Every target first runs tools/setup, which installs what is missing and is
# silent otherwise; the build itself is CMake's (CMakePresets.json).

PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)

.PHONY: all demo test test-plugins test-cluster check bench bench-parts wheel install format clean help setup
.DEFAULT_GOAL := all

all: build/build.ninja ## build the release into build/ (the default)
	@cmake --build build --parallel $(JOBS)

demo: all ## five acts: the same jobs without Salus and with it, and a page about them
	@tools/demo

test: all ## run every test
	@ctest --test-dir build --parallel $(JOBS) --output-on-failure --no-tests=error
	@.venv/bin/python -m pytest -n $(JOBS) --dist worksteal -m 'not alone' tests
	@.venv/bin/python -m pytest -m alone tests

test-plugins: all ## try other plugins, and all tests of devices on the discrete test device
	@tools/test_plugins

test-cluster: all ## a search with Ray on two nodes on this machine; installs Ray into build/ray
	@tools/test_cluster

check: setup ## format, lint, layers, both compilers, sanitizers
	@tools/check

bench: all ## what sharing buys, beside other ways to share: 5 min; FULL=1: 90 min; AGAIN=1: not resumed
	@bench/evaluate $(if $(FULL),--full) $(if $(AGAIN),--again)
	@bench/report

bench-parts: all ## measure parts: decisions, the bridge beside in-process, sharing; FULL=1: at length
	@build/bin/salus-bench-core
	@bench/bridge $(if $(FULL),--full,--quick)
	@bench/sharing $(if $(FULL),,--quick)

wheel: all ## build the client wheel into build/wheel/: plain `python` becomes a job
	@tools/wheel

install: all ## install into PREFIX (/usr/local)
	@cmake --install build --prefix '$(PREFIX)'

format: setup ## lay out all C files
	@ls -d $$(git ls-files -co --exclude-standard -- '*.c' '*.h') 2>/dev/null | xargs -r clang-format-14 -i

clean: ## remove all builds; .venv stays
	@rm -rf build build-*/

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup:
	@tools/setup

# Ninja runs CMake again by itself when a list changes, but it does not know of the presets.
build/build.ninja: CMakePresets.json | setup
	@cmake --preset release
	@touch $@

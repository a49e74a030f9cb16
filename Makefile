# Meson does the building; this is the short way to say what is wanted. `make help` lists it.
# SPDX-License-Identifier: Apache-2.0
BUILD  := build
PREFIX := /usr/local
DESTDIR :=
HOURS  := 1
BINARY := $(BUILD)/ringway

.DEFAULT_GOAL := all
.PHONY: all demo check check-guests check-hostile check-matrix check-threads coverage fuzz bench bench-guests bench-host bench-taps bench-scale bench-workers bench-instructions lint format install clean help

all: ## build build/ringway
	@scripts/deps build
	@test -f $(BUILD)/build.ninja || { echo 'building $(BINARY)'; meson setup --prefix $(PREFIX) $(BUILD) >/dev/null; }
	@ninja -C $(BUILD) -n | grep -q 'no work to do' || { [ -t 1 ] || { quiet=--quiet; echo 'compiling: up to two minutes'; }; ninja -C $(BUILD) $$quiet; }

demo: ## boot two virtual machines and let them talk through ringway (three to five minutes)
	@scripts/deps demo
	@$(MAKE) --no-print-directory all
	@python3 -m rig.demo --binary $(BINARY)

check: ## run all tests and the linters
	@scripts/deps check
	@python3 scripts/check.py

check-guests: ## the whole matrix of guest features (half an hour and more without KVM)
	@scripts/deps check
	@$(MAKE) --no-print-directory all
	@for test in paths features host unlike tunnels; do python3 -m tests.guests.test_$$test --all $(BINARY) || exit 1; done

check-hostile: ## the attacks of hostile guests and front-ends, a million each (minutes)
	@scripts/deps check
	@python3 scripts/check.py --only hostile --full

check-threads: ## unit, device and hostile tests under the thread sanitizer (minutes)
	@scripts/deps check
	@python3 scripts/check.py --threads

check-matrix: ## drivers of all sets of offloads meet all others (minutes)
	@scripts/deps check
	@$(MAKE) --no-print-directory all
	@RINGWAY=$(BINARY) $(BUILD)/tests/device/matrix

coverage: ## branch coverage of src/: a table, and what no test reaches
	@scripts/deps coverage
	@python3 scripts/coverage.py

fuzz: ## run all fuzz targets for HOURS (1), two at a time; what they find is in fuzz/
	@scripts/deps fuzz
	@python3 scripts/fuzz.py --hours $(HOURS)

bench: ## compare with DPDK's testpmd and Open vSwitch in one run (root for the latter; half an hour)
	@scripts/deps bench || echo 'going on without what is missing' >&2
	@$(MAKE) --no-print-directory all
	@python3 bench/compare.py --binary $(BINARY)

bench-guests: ## compare with two taps on a Linux bridge, between QEMU guests (root)
	@scripts/deps check
	@$(MAKE) --no-print-directory all
	@python3 bench/guests.py --binary $(BINARY)

bench-host: ## compare with QEMU's own tap and with passt, between a QEMU guest and its host (root)
	@scripts/deps host
	@$(MAKE) --no-print-directory all
	@python3 bench/host.py --binary $(BINARY)

bench-taps: ## compare two taps with a Linux bridge, between network namespaces (root)
	@scripts/deps host
	@$(MAKE) --no-print-directory all
	@python3 bench/taps.py --binary $(BINARY)

bench-scale: ## start-up, memory and idle CPU time of a switch with a thousand ports
	@scripts/deps check
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) --quiet bench/idle_guests
	@python3 bench/scale.py --build $(BUILD)

bench-workers: ## two workers against one, each with guests of its own that need no CPU
	@scripts/deps build
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) --quiet bench/workers
	@for size in 64 1518; do $(BUILD)/bench/workers $$size || exit 1; done

bench-instructions: ## instructions per frame of each stage, by callgrind, into docs/instructions.md
	@scripts/deps check
	@$(MAKE) --no-print-directory all
	@python3 bench/instructions.py --build $(BUILD)

lint: ## clang-format and clang-tidy
	@scripts/lint

format: ## let clang-format have its way
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all ## install into $(DESTDIR)$(PREFIX)
	@folder='$(DESTDIR)$(PREFIX)'; while [ ! -e "$$folder" ]; do folder=$$(dirname "$$folder"); done; [ -w "$$folder" ] || { \
	  echo "cannot write to $$folder: become root, or choose another PREFIX= or DESTDIR=" >&2; exit 1; }
	@meson configure $(BUILD) -Dprefix=$(PREFIX) >/dev/null
	@ninja -C $(BUILD) >/dev/null
	@DESTDIR='$(abspath $(DESTDIR))' meson install -C $(BUILD) --no-rebuild --quiet
	@echo "installed into $(DESTDIR)$(PREFIX)"

clean: ## remove what was built
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz $(BUILD)-coverage

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 22

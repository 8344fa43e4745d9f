# The front door: every line calls Meson, Ninja or a script that also works alone. HACKING.md tells more.
all: ; @tools/build build
setup: ; @tools/setup
demo: setup all ; @tools/demo
check: setup all ; @tools/run-tests build
check-long: setup all ; @HOLT_LONG=1 tools/run-tests build
asan: ; @tools/sanitize build-asan address,undefined unit cli vm/run.bats vm/hostile.bats vm/lifecycle.bats
tsan-threads: ; @tools/sanitize build-tsan thread unit:threads
tsan: ; @tools/sanitize build-tsan thread unit cli vm/run.bats
fuzz: ; @tools/fuzz build-fuzz $(or $(SECONDS),60)
lint: all ; @tools/lint build
bench: all ; @bench/run build
install: all ; @meson install -C build --no-rebuild
clean: ; rm -rf build build-asan build-tsan build-fuzz
.PHONY: all setup demo check check-long asan tsan tsan-threads fuzz lint bench install clean
.NOTPARALLEL:

# Meson does the building; this is the short way to say what is wanted. `make help` lists it.
BUILD := build
.DEFAULT_GOAL := all
.PHONY: all
all:
	@scripts/deps build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) >/dev/null
	@ninja -C $(BUILD)

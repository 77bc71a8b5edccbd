# Sanitizers and the soak.  Their builds are wheels of their own, each with an environment of its
# own under build/ that finds everything but pplconv in the normal one; nothing of that is changed.
# They want gcc, whose runtime libraries are preloaded.

.PHONY: asan asan-fuzz leaks tsan soak

SECONDS ?= 600
CALLS ?= 20000

# Overflow is an error here, though Python's own flags make it wrap.  Warnings are not errors: with a
# sanitizer gcc warns of impossible paths.
ASAN_FLAGS := -g1 -fno-wrapv -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=all
TSAN_FLAGS := -g1 -fno-omit-frame-pointer -fsanitize=thread
runtime = $(shell $(CC) -print-file-name=$(1))

ASAN_RUNTIME = $(call runtime,libasan.so) $(call runtime,libstdc++.so.6)
# Without leaks: an interpreter loses much of its own memory when it ends.
UNDER_ASAN = LD_PRELOAD="$(ASAN_RUNTIME)" PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1 \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1

# Reports go to files, one a process, as tests may swallow what their children say.  (`-m pytest`
# would put the sources before what was built of them.)  Those of UBSan, which knows no such files
# beside ASan, go to standard error past what pytest captures; either ends the process.
asan: build/asan/.installed ## the suite, or TESTS=..., with all C and Cython under ASan and UBSan
	rm -rf build/asan/reports && mkdir -p build/asan/reports
	$(UNDER_ASAN):log_path=$(CURDIR)/build/asan/reports/report \
	PPLCONV_TEST_CFLAGS="$(ASAN_FLAGS)" \
		build/asan/venv/bin/python $(BIN)/pytest -n auto --capture=sys \
		-m 'not unsanitized' $(TESTS) $(ARGS); \
	status=$$?; $(BIN)/python tests/sanitizers/reports.py build/asan/reports && exit $$status

asan-fuzz: build/asan/.installed ## `make fuzz-models` under ASan and UBSan; ARGS="--seeds A:B --jobs J --compiled"
	$(UNDER_ASAN) build/asan/venv/bin/python tests/network/model_fuzz.py $(ARGS)

leaks: build/asan/.installed ## rounds of calls, and what is lost in each, under LeakSanitizer
	LD_PRELOAD="$(ASAN_RUNTIME)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=1:leak_check_at_exit=0:allocator_may_return_null=1 \
	OPENBLAS_NUM_THREADS=1 PPLCONV_WISDOM=off \
		build/asan/venv/bin/python tests/sanitizers/leaks.py $(ARGS)

# Portable kernels are C, where the tool sees each access to a tensor; it does not see assembly's.
# Every call gets the team it asks for, however many others run and however few cores there are.
tsan: build/tsan/.installed ## CALLS=20000 calls from Python threads with teams, under ThreadSanitizer
	LD_PRELOAD="$(call runtime,libtsan.so)" \
	TSAN_OPTIONS=history_size=7:second_deadlock_stack=1:suppressions=$(CURDIR)/tests/sanitizers/thread_sanitizer.supp \
	PPLCONV_MAX_ISA=portable PPLCONV_NUM_THREADS=64 PPLCONV_TEAM_START_US=1 \
	OPENBLAS_NUM_THREADS=1 PPLCONV_WISDOM=off \
		build/tsan/venv/bin/python tests/sanitizers/concurrent_calls.py --calls $(CALLS) $(ARGS)

# Installed before the environment sees the normal one, where pip would find the package and stop.
define beside_the_normal_one
	$(BIN)/python -m venv --without-pip build/$(1)/venv
	$(BIN)/python -m pip --python build/$(1)/venv/bin/python install --no-deps build/$(1)/wheels/*.whl
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))' \
		> "$$(build/$(1)/venv/bin/python -c \
			'import sysconfig; print(sysconfig.get_path("platlib"))')/everything_else.pth"
endef

soak: $(STAMPS)/extra-test ## SECONDS=600 of mixed load with kills; what is held, before and after
	$(BIN)/python tests/soak/soak.py --seconds $(SECONDS) $(ARGS)

# Not CFLAGS itself: the normal package, which may be built first, would get them too.
build/asan/.installed: SANITIZED = $(ASAN_FLAGS)
build/tsan/.installed: SANITIZED = $(TSAN_FLAGS)
build/%/.installed: $(SOURCES) $(STAMPS)/sources | $(STAMPS)/extra-test
	@mkdir -p build/$*
	rm -rf build/$*/wheels build/$*/build/lib* build/$*/venv
	printf '[build]\nbuild_base = build/$*/build\n' > build/$*/setup.cfg
	DIST_EXTRA_CONFIG=$(CURDIR)/build/$*/setup.cfg CFLAGS="$(SANITIZED)" \
		$(BIN)/python -m pip wheel --no-deps --wheel-dir build/$*/wheels .
	$(call beside_the_normal_one,$*)
	@touch $@

# `make demo` and `make test` set everything up by themselves; they need Python >= 3.11 and make.
PYTHON ?= python3
SITE ?= docs/_build/site
BIN := .venv/bin
READY := .venv/.ready
# the oldest Python we support, where it is installed
OLDEST ?= $(shell for p in python3.11 python3.12 $(PYTHON); do $$p -c "" 2>/dev/null && { echo $$p; break; }; done)
PYTEST := -m pytest -n 2 --dist worksteal
# libraries of different age warn about each other; only with our own pinned set is every warning an error
# one file per room: what touches the libraries
CORE := $(addsuffix .py,$(addprefix tests/,cli/test_attack cli/test_commands datasets/test_datasets \
	equalization/test_equalize evidence/test_gallery heads/test_ridge layers/test_layers linalg/test_linalg \
	masks/test_laws models/test_models penalties/test_penalty recommenders/test_use test_data files/test_writing test_losses \
	test_plots))
MIXED := -m "not slow" -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning -W ignore::FutureWarning

# other instructions, other sums, another order: what only one processor rounds to must not decide a test
OTHER_CORE := $(if $(filter aarch64 arm64,$(shell uname -m)),ARMV8,Nehalem)
ROUNDING := ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=$(OTHER_CORE) MKL_CBWR=COMPATIBLE OMP_NUM_THREADS=2

.PHONY: demo test quick test-models test-rounding test-minimal test-newest coverage package lint types docs site bench kills mutate fuzz release-check site-check \
	conda release-notes paper lock clean

demo: $(READY)
	$(BIN)/droptics demo --out droptics-demo

test quick test-minimal test-newest coverage mutate fuzz: export OMP_NUM_THREADS := 1

test: lint types
	$(BIN)/python $(PYTEST)

quick: $(READY)
	$(BIN)/python $(PYTEST) -m "not slow"

# models and trainers that others wrote, built by configuration; what does not import is skipped with the reason
test-models: .venv-models/.ready
	.venv-models/bin/python -m pytest -W ignore tests/audits/test_trainers.py tests/third_party

# the fast tests as another machine would run them, without those that compare no number
test-rounding: $(READY)
	$(ROUNDING) $(BIN)/python $(PYTEST) -m "not slow and not unrounded" --shuffle 1 --nudge 1 tests

# the lowest versions that are declared, and whatever is newest today: on Linux the newest torch brings CUDA along, 6.5 GB
# on disk, GPU or not
test-minimal: .venv-minimal/.ready
	.venv-minimal/bin/python $(PYTEST) $(MIXED) $(CORE)

test-newest: .venv-newest/.ready
	.venv-newest/bin/python $(PYTEST) $(MIXED) tests

# compiled loops are measured by running them once more as Python
coverage: $(READY)
	rm -f .coverage .coverage.*
	$(BIN)/python $(PYTEST) --cov=droptics --cov-report= --cov-fail-under=0
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/penalties/relu/test_kernels.py tests/linalg/test_linalg.py --cov=droptics --cov-append \
		--cov-report= --cov-fail-under=0
	$(BIN)/python -m coverage report

# sdist and wheel, the wheel alone in a fresh environment, and its types seen from outside
package: $(READY)
	$(BIN)/python tests/clean_install.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# the site beside those of earlier versions, ready to be served: make site SITE=folder
site: docs
	mkdir -p $(SITE)
	$(BIN)/python docs/versions.py docs/_build/html $(SITE)

# what is measured goes beside what is recorded; `make bench BENCH=--record` replaces the record
bench: .venv-bench/.ready
	.venv-bench/bin/python benchmarks/run.py $(BENCH)

# 200 commands killed at random times and run again: about an hour of one core;
# `make kills KILLS="--workers 16 --record results/kills.json"` takes a core each and keeps what came out
kills: $(READY)
	$(BIN)/python tests/kills.py $(KILLS)

# breaks 30 places of every room and says what the tests notice, and what the claims do: some two hours of one core
mutate: $(READY)
	$(BIN)/python tests/mutations.py $(MUTATE)

# 10,000 instances a routine; goes on where it was stopped
fuzz: $(READY)
	$(BIN)/python tests/fuzz.py $(FUZZ)

# what the field's own reviews ask of a release; the archives of the last commit, built twice, are left in dist/.
# pyroma wants a mail address of the authors, and the project has none
release-check: .venv-release/.ready
	.venv-release/bin/validate-pyproject pyproject.toml
	.venv-release/bin/cffconvert --validate
	.venv-release/bin/pyroma --min 10 --skip-tests AuthorEmail .
	.venv-release/bin/sp-repo-review .
	.venv-release/bin/zizmor --offline --no-progress .github
	.venv-release/bin/python tests/reproducible_build.py dist
	.venv-release/bin/twine check --strict dist/*
	$(MAKE) site-check

# workflows by their schemas; the site as a reader has it: links, barriers, notebooks and first pages with nothing but the
# wheel of dist/; a list of all that is installed
site-check: .venv-site/.ready docs
	.venv-site/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.venv-site/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	.venv-site/bin/python tests/site_check.py docs/_build/html
	.venv-site/bin/python -m pip install --quiet -c constraints.txt torch==2.13.0 dist/*.whl
	.venv-site/bin/python tests/run_notebooks.py docs/generated/examples
	.venv-site/bin/python tests/run_pages.py README.md docs/quickstart.md docs/recipes.md docs/names.md docs/coming/*.md
	.venv-site/bin/cyclonedx-py environment .venv --pyproject pyproject.toml --mc-type library --of JSON -o docs/_build/droptics.cdx.json

# the conda package, built and tested; CHANNELS replaces conda-forge, and packages that lie in dist-conda/ are used too
conda: .venv-release/.ready
	.venv-release/bin/python conda/build.py dist-conda $(CHANNELS)

# the paper from its template, with the numbers on record
paper: $(READY)
	$(BIN)/python paper/write.py

# the changelog's entry of a tag: make release-notes TAG=v0.2.0
release-notes:
	@$(PYTHON) tests/release_notes.py $(TAG)

# torch is not in the lock: which build of it suits a machine, with CUDA or without, is the machine's matter
$(READY): pyproject.toml locks/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r locks/dev.txt
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

.venv-minimal/.ready: pyproject.toml constraints-minimal.txt
	test -x .venv-minimal/bin/python || $(OLDEST) -m venv .venv-minimal
	.venv-minimal/bin/python -m pip install --quiet -c constraints-minimal.txt -e ".[test]"
	touch $@

.venv-newest/.ready: pyproject.toml
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager -e ".[test]"
	touch $@

# a torchvision that does not import would take transformers down with it
.venv-models/.ready: pyproject.toml constraints.txt
	test -x .venv-models/bin/python || $(PYTHON) -m venv .venv-models
	.venv-models/bin/python -m pip install --quiet --upgrade pip
	.venv-models/bin/python -m pip install --quiet -c constraints.txt torch==2.13.0
	.venv-models/bin/python -m pip install --quiet -c constraints.txt -e ".[test,models]"
	.venv-models/bin/python -m pip install --quiet --no-deps timm torchvision==0.28.0
	.venv-models/bin/python -W ignore -c "import torchvision" || \
		.venv-models/bin/python -m pip uninstall --quiet --yes torchvision
	touch $@

# torchattacks asks for torchvision and for an old requests, and uses neither
.venv-bench/.ready: pyproject.toml constraints.txt
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet -c constraints.txt torch==2.13.0
	.venv-bench/bin/python -m pip install --quiet -c constraints.txt -e ".[bench]"
	.venv-bench/bin/python -m pip install --quiet --no-deps torchattacks==3.5.1
	touch $@

.venv-release/.ready: locks/release.txt
	test -x .venv-release/bin/python || $(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet --upgrade pip
	.venv-release/bin/python -m pip install --quiet --require-hashes --no-deps -r locks/release.txt
	touch $@

.venv-site/.ready: locks/site.txt
	test -x .venv-site/bin/python || $(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --upgrade pip
	.venv-site/bin/python -m pip install --quiet --require-hashes --no-deps -r locks/site.txt
	touch $@

# every file of every library our commands install, for all platforms and Pythons, at the versions of constraints.txt;
# what torch brings along for CUDA is left to torch
UNLOCKED := torch triton cuda-bindings cuda-pathfinder cuda-toolkit $(addprefix nvidia-,cublas cuda-cupti cuda-nvrtc \
	cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse cusparselt-cu13 nccl-cu13 nvjitlink nvshmem-cu13 nvtx)
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	-c constraints.txt $(addprefix --no-emit-package ,$(UNLOCKED))
lock:
	$(LOCK) pyproject.toml --extra test --extra docs -o locks/dev.txt
	$(LOCK) --group release -o locks/release.txt
	$(LOCK) --group site -o locks/site.txt

clean:
	rm -rf .venv .venv-* build dist dist-conda .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf benchmarks/measured droptics-demo droptics-out docs/_build docs/generated

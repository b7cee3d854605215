# make run           a three-broker cluster, used once by a real client, and stopped again
# make bench         figures beside Apache Kafka's, 25 to 50 minutes: build/bench/index.html; FORM=--quick in a minute
# make up            the same cluster in the foreground until Ctrl-C
# make test          everything that CI runs, about 44 minutes on two cores, in two processes (WORKERS=2); by suite:
#   make check       lint, types and unit tests, 2 minutes
#   make contract    what both Odradek and Apache Kafka must do, real clients included, 11 minutes
#   make clients     client libraries and their consumer groups, operator's commands, 5 minutes
#   make cluster     several brokers, mixed with Apache Kafka's too, 16 minutes
#   make faults      brokers killed, attacked and disks full, 4 minutes
#   make soak        how a leak is told from noise, a second
#   make fuzz        frames and files that nobody would send or write, 1 minute
#   make campaign    clients, transactions and groups while brokers die, in short, 1 minute
#   make operations  the operating guide, page by page, and the dashboard, 3 minutes
#   make site        the documentation: built, its names, links and commands checked, 2 minutes
#   make console     the console in a real browser, 2 minutes
#   make zookeeper   the embedded ZooKeeper beside the real one, 2 minutes
#   make reference   files that change hands with Apache Kafka, 4 minutes
#   make spark       the Spark source and sink, 7 minutes
#   make cluster-test  the compose cluster in containers, 6 minutes
# make cluster-migration-test   a compose cluster of Apache Kafka becomes ours under load, 5 minutes
# make cluster-up    the cluster in containers; cluster-logs, cluster-down
# make cluster-upgrade      builds the image anew and replaces its brokers one by one
# make cluster-kafka        a cluster of Apache Kafka in containers; cluster-migration puts brokers of ours in their place
# make cluster-monitoring   the same with Prometheus and Grafana: localhost:3000
# make cluster-spark JOB='topic-report --topics orders'   a PySpark job in a container, on that cluster
# make docs          the documentation as a site, in build/site
# make clean         removes what was built, the environment too

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tests run in so many processes side by side, each taking whole files.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SUITES := contract clients cluster console faults fuzz campaign soak operations simulation spark docker reference zookeeper site

.PHONY: help run up bench test check lint types unit docs $(SUITES) clean
.PHONY: wheelhouse cluster-upgrade cluster-kafka cluster-migration cluster-migration-test cluster-up cluster-secure cluster-monitoring cluster-spark cluster-down cluster-logs cluster-test

help:
	@sed -n '/^#/!q; s/^# //p' Makefile

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "odradek: $(PYTHON) is not installed; install Python 3.11 or newer, or say make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "odradek: $(PYTHON) is older than 3.11; install a newer one, or say make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "odradek: $(PYTHON) has no venv module; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@! command -v krb5-config >/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[kerberos]'
	@command -v java >/dev/null || [ -x "$$JAVA_HOME/bin/java" ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[java]'
	@touch $@

run: $(VENV)/.dev
	$(BIN)/python -m broker.dev.demo

up: $(VENV)/.dev
	$(BIN)/odradek dev --brokers 3

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.suite $(FORM)

check: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(PYTEST) tests/unit

$(SUITES): $(VENV)/.test
	$(PYTEST) tests/$@

docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

test: $(VENV)/.test lint types
	$(PYTEST) tests

# The local cluster in containers. Settings: docker/.env; KEEP_DATA=no lets cluster-down remove the volumes.
COMPOSE ?= $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)
CLUSTER := cd docker && $(COMPOSE) -f docker-compose.yml
KEEP_DATA ?= yes
# As the brokers are seen from this machine: ports of the shell, else of docker/.env.
BOOTSTRAP = $$(eval "$$(sed -n 's/^\(PORT_[0-9]\)=\(.*\)/: $${\1:=\2}/p' docker/.env)"; echo localhost:$$PORT_0,localhost:$$PORT_1,localhost:$$PORT_2)

wheelhouse: $(VENV)/.dev
	rm -rf docker/wheelhouse build && mkdir -p docker/wheelhouse
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --wheel-dir docker/wheelhouse '.$(EXTRAS)'
	rm -rf build

cluster-up: wheelhouse
	$(CLUSTER) up -d --build
	@$(BIN)/python -m broker.dev.wait --brokers 3 --bootstrap-server $(BOOTSTRAP)

# BROKERS='0 2' is for these only: a mixed cluster stays.
ROLLING = $(BIN)/python -m broker.dev.rolling --bootstrap-server $(BOOTSTRAP) $(BROKERS:%=--broker %)

cluster-upgrade: wheelhouse
	$(CLUSTER) build broker-0
	@$(ROLLING) -- $(COMPOSE) -f docker/docker-compose.yml

cluster-kafka: $(VENV)/.dev
	cd docker && $(COMPOSE) -f docker-compose.kafka.yml up -d
	@$(BIN)/python -m broker.dev.wait --brokers 3 --bootstrap-server $(BOOTSTRAP)

cluster-migration: wheelhouse
	$(CLUSTER) build broker-0
	@$(ROLLING) --own-data -- $(COMPOSE) -f docker/docker-compose.yml

cluster-monitoring: wheelhouse
	$(CLUSTER) -f docker-compose.monitoring.yml up -d --build

# The same on SASL_SSL with users and ACLs; what clients need is in docker/security.
cluster-secure: EXTRAS := [security]
cluster-secure: wheelhouse
	export SECURITY_DIRECTORY=$(CURDIR)/docker/security; $(CLUSTER) -f docker-compose.secure.yml up -d --build
	rm -rf docker/security && docker cp $$($(CLUSTER) -f docker-compose.secure.yml ps -q broker-0):/security/host docker/security
	@$(BIN)/python -m broker.dev.wait --brokers 3 --bootstrap-server $(BOOTSTRAP) --command-config docker/security/admin.properties

cluster-spark:
	$(CLUSTER) -f docker-compose.spark.yml build spark
	$(CLUSTER) -f docker-compose.spark.yml run --rm spark $(JOB)

cluster-down:
	$(CLUSTER) -f docker-compose.spark.yml -f docker-compose.monitoring.yml down --remove-orphans $(if $(filter no,$(KEEP_DATA)),--volumes)

cluster-logs:
	$(CLUSTER) logs --follow --tail 100

cluster-test: $(VENV)/.test
	$(PYTEST) tests/docker

cluster-migration-test: $(VENV)/.test
	$(BIN)/python -m pytest tests/docker/migration.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info

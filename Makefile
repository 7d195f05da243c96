# Two commands suffice on a fresh machine: `make demo` and `make test`. Each installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup up demo test check unit bench soak soak-transactions soak-spark soak-state soak-objects soak-plain chains simulate simulate-raft simulate-raft-mutants simulate-replication simulate-replication-mutants chaos migration fuzz golden sql-plans sql-kills connect-rest connect-kills debezium docs format clean soak-registry rest-openapi mixed services-on-kafka soak-hdfs

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=...)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Barnabas and its test tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@bash tools/java.sh || true
	@touch $(STAMP)

up: setup
	@$(BIN)/barnabas up

demo: setup
	@$(BIN)/python examples/demo.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Three at a time: much of it waits for other processes.
test: check
	$(BIN)/python tools/run_tests.py

# Without the slow ones; `make test` has them all.
unit: setup
	$(BIN)/python -m pytest tests/unit -m "not slow" -n 2

bench: setup
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.fairness
	$(BIN)/python -m benchmarks.spark_cases --prepare
	$(BIN)/python -m benchmarks.spark_sink_cases
	$(BIN)/python -m benchmarks.streams_cases
	$(BIN)/python -m benchmarks.streams_rivals --document

# Minutes, not seconds: eight consumers at once; a processor that is killed fifty times, and its node twenty times.
soak-transactions: setup
	BARNABAS_CONSUMERS=8 $(BIN)/python -m pytest tests/clients/test_groups.py -k nothing_is_skipped
	BARNABAS_KILLS=50,20 $(BIN)/python -m pytest tests/clients/test_exactly_once.py

# A node that is killed under load: `make soak KILLS=500`. The moments of a run are repeated with BARNABAS_SEED=17.
KILLS ?= 500
soak: setup
	BARNABAS_NODE_KILLS=$(KILLS) $(BIN)/python -m pytest tests/faults/test_kills.py -s

# Registries whose primary is killed, and cut off from Kafka in one direction or both, while others write: `make
# soak-registry SPLITS=30`. The cuts of a run are repeated with BARNABAS_SEED=17.
SPLITS ?= 10
soak-registry: setup
	BARNABAS_REGISTRY_KILLS=$(SPLITS) $(BIN)/python -m pytest tests/integration/registry/test_instances.py -k kills -s
	BARNABAS_REGISTRY_SPLITS=$(SPLITS) $(BIN)/python -m pytest tests/integration/registry/test_split.py -s

# Random plans of SQL against a computation in batch by SQLite and by Spark SQL: `make sql-plans PLANS=1000`.
PLANS ?= 1000
sql-plans: setup
	BARNABAS_PLANS=$(PLANS) $(BIN)/python -m pytest tests/unit/pipelines/sql/test_plans.py tests/pipelines/sql/test_plans.py -n 2

# A SQL server that is killed again and again, on Apache Kafka and on a node of ours: `make sql-kills SQL_KILLS=5`.
SQL_KILLS ?= 3
sql-kills: setup
	BARNABAS_SQL_KILLS=$(SQL_KILLS) $(BIN)/python -m pytest tests/pipelines/sql/test_kills.py -s

# Frames and record batches against a live node: `make fuzz SECONDS=1800`.
SECONDS ?= 1800
fuzz: setup
	BARNABAS_FUZZ_S=$(SECONDS) $(BIN)/python -m pytest tests/faults/test_fuzz.py -s

# A pipeline and a topology on Spark whose drivers and workers are killed thirty times, and a Spark cluster that loses a
# worker.
SPARK_KILLS ?= 30
soak-spark: setup
	BARNABAS_SPARK_KILLS=$(SPARK_KILLS) $(BIN)/python -m pytest tests/pipelines/test_sink.py
	BARNABAS_SPARK_KILLS=$(SPARK_KILLS) $(BIN)/python -m pytest tests/pipelines/test_sink_killed.py tests/pipelines/streams/test_topology_killed.py tests/pipelines/test_spark_cluster.py -s

# Fifty million keys counted by a worker of bounded memory that is killed half-way: `make soak-state KEYS=1000000`.
KEYS ?= 50000000
soak-state: setup
	$(BIN)/python -m benchmarks.streams_state --keys $(KEYS) --directory build/soak-state

# A topology on a Spark cluster of two workers whose checkpoint is in an S3 server (moto): a worker and the driver are
# killed. Then one machine's drivers and workers are killed thirty times over such a checkpoint.
soak-objects: setup
	BARNABAS_OBJECTS=1 BARNABAS_SPARK_KILLS=$(SPARK_KILLS) $(BIN)/python -m pytest tests/pipelines/streams/test_topology_in_objects.py -s

# A topology whose checkpoint is on HDFS, a namenode and a datanode of Apache Hadoop: its driver is killed.
soak-hdfs: setup
	BARNABAS_HDFS=1 $(BIN)/python -m pytest tests/pipelines/streams/test_topology_on_hdfs.py -s

# A plain query that is killed five times and then left to finish: `make soak-plain RUNS=100`. The logs of all runs stay
# in soak-logs.
RUNS ?= 100
soak-plain: setup
	$(BIN)/python tests/pipelines/soak_plain_copy.py --runs $(RUNS) --logs soak-logs

# Random chains of operators of a topology in all sorts of batches, and beside Kafka Streams: `make chains CHAINS=2000`.
# Others are drawn with BARNABAS_SEED=17, and every change is compared with BARNABAS_EMIT=changes.
CHAINS ?= 1000
chains: setup
	BARNABAS_CHAINS=$(CHAINS) $(BIN)/python -m pytest -q tests/unit/pipelines/streams/test_batch_ends.py \
		tests/pipelines/streams/test_like_kafka_streams.py -k "chains or pairs"

# Crashes on a simulated disk: `make simulate SEEDS=10000`; a seed that fails is replayed with SIMULATION_SEED=17.
SEEDS ?= 10000
simulate: setup
	SIMULATION_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/simulation -q

# The quorum with a network that loses and disks that forget: `make simulate-raft SEEDS=20000`; a seed that fails is
# replayed with RAFT_SEED=17.
simulate-raft: setup
	$(BIN)/python -m tests.support.raft $(SEEDS)

# Each rule of the quorum broken in turn: the simulator must notice within 2,000 seeds.
simulate-raft-mutants: setup
	$(BIN)/python -m tests.support.raft.mutants

# Replication with brokers that are killed, hang and lose power: `make simulate-replication SEEDS=20000`; a seed that fails
# is replayed with REPLICATION_SEED=17.
simulate-replication: setup
	$(BIN)/python -m tests.support.replication $(SEEDS)

# Each rule of replication broken in turn: the simulator must notice within 2,000 seeds.
simulate-replication-mutants: setup
	$(BIN)/python -m tests.support.replication.mutants

# A cluster of processes whose nodes are killed, hang and are cut off under clients of all kinds: `make chaos MINUTES=10`.
# SEED=17 repeats the faults of a run; FAULTS="kill,isolate" chooses among them. NODES=--kafka does it to three nodes of
# Apache Kafka, NODES=--mixed to two of ours and one of Apache Kafka's.
MINUTES ?= 5
chaos: setup
	$(BIN)/python -m tests.support.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults "$(FAULTS)") $(NODES)

# Three of our nodes are replaced by three of Apache Kafka's and these by ours again, under load: two to five minutes.
migration: setup
	BARNABAS_MIGRATION=1 $(BIN)/python -m pytest tests/reference/test_migration.py -s

# Pipelines of Java clients on a cluster of both, the tools of Kafka's system tests on ours, three directories that go from
# one to the other, and one node of ours among two of Kafka's: six minutes.
mixed: setup
	BARNABAS_MIXED_COORDINATORS=1 BARNABAS_REPLICATION_TOOLS=1 BARNABAS_HAND_OVER=1 $(BIN)/python -m pytest -s \
		tests/reference/test_mixed_coordinators.py tests/reference/test_replication_tools.py \
		tests/reference/test_hand_over_cluster.py tests/reference/test_minority_member.py

# Every transcript of the tools all three ways: ours on our node, ours on Apache Kafka, Kafka's on our node.
golden: setup
	BARNABAS_GOLDEN=all $(BIN)/python -m pytest tests/tools -q

# The registry's and the REST proxy's tests over Apache Kafka instead of a node of ours.
services-on-kafka: setup
	BARNABAS_ON_APACHE=1 $(BIN)/python -m pytest tests/integration/registry tests/integration/rest --ignore=tests/integration/registry/test_up.py

# The fields of the REST proxy's answers beside Confluent's description of them, `api/v3/openapi.yaml` of kafka-rest:
# `make rest-openapi OPENAPI=openapi.yaml`.
rest-openapi: setup
	BARNABAS_OPENAPI=$(abspath $(OPENAPI)) $(BIN)/python -m pytest tests/reference/test_rest_openapi.py

# REST bodies of connectors beside Apache Connect's, its topics taken over and handed back, and changes of databases beside Debezium's.
connect-rest: setup
	BARNABAS_CONNECT_REST=1 $(BIN)/python -m pytest tests/reference/test_connect_rest.py tests/reference/test_connect_takeover.py

# Changes of a database, a topic and a table, with kills of workers, Spark's processes and the database.
CONNECT_KILLS ?= 8
connect-kills: setup
	BARNABAS_CONNECT_KILLS=$(CONNECT_KILLS) $(BIN)/python -m pytest -n 0 -s tests/pipelines/test_connect_kills.py

debezium: setup
	BARNABAS_DEBEZIUM=1 $(BIN)/python -m pytest tests/reference/test_change_events.py

docs: setup
	$(BIN)/python tools/document_tools.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis

# A cluster of ours and Apache Kafka with all listeners secured, and pipelines over SASL_SSL: some minutes.
.PHONY: test-secured
test-secured: setup
	BARNABAS_TEST_SECURED=1 $(BIN)/python -m pytest -q tests/reference/test_secured_members.py tests/pipelines/test_secured.py

# Brokers are killed that coordinate consumer, share and streams groups: `make failover FAILOVERS=9`.
FAILOVERS ?= 3
.PHONY: failover
failover: setup
	BARNABAS_FAILOVERS=$(FAILOVERS) $(BIN)/python -m pytest -q tests/clients/test_group_failover.py

# Kafka's StandardAuthorizer is asked a million times, and franz-go's client is compiled and logs in.
.PHONY: test-security
test-security: setup
	BARNABAS_DECISIONS=1000000 $(BIN)/python -m pytest -q tests/reference/test_authorizer.py
	BARNABAS_GO=1 $(BIN)/python -m pytest -q tests/clients/test_foreign_logins.py

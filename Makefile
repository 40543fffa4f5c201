# Two commands set everything up on a machine with Python 3.11, Java 17, Maven and make:
# `make test` and `make demo`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA_VERSIONS := 4.3.1 3.9.1
SOURCES := kclient pyspark_kclient.py tests tools examples bench setup.py

.PHONY: test test-brokers test-container test-ages test-spark check demo bench bench-quick bench-spark fuzz messages tools jars kerberos clean

test: jars kerberos
	$(BIN)/python -m pytest

# Brokers of every age; their jars are fetched at first use.
test-brokers: jars
	$(BIN)/python -m pytest tests/integration -m every_kafka

# Spark beside its own connector; KCLIENT_SPARK_KILLS=30 kills the exactly-once stream more often.
test-spark: jars
	$(BIN)/python -m pytest tests/spark tests/unit/spark -m 'spark or not spark'

# What works on which Kafka; if all went as expected, the README's table is written anew.
test-ages: jars
	KCLIENT_TABLE=README.md $(BIN)/python -m pytest tests/ages -m 'every_kafka or not every_kafka'

# The integration tests against a container, by an engine that is started if none answers.
test-container: jars
	tools/container/run.sh

check: $(VENV)/.stamp
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy kclient pyspark_kclient.py tests tools examples bench
	$(BIN)/lint-imports

demo: jars
	$(BIN)/python examples/demo.py

# Beside the peers, with ratios; takes a quarter of an hour, the quick one under 3 minutes.
bench: jars
	$(BIN)/python -m bench.messages
	$(BIN)/python -m bench.metadata
	$(BIN)/python -m bench.records
	$(BIN)/python -m bench.instructions
	$(BIN)/python -m bench.admin
	$(BIN)/python -m bench.throughput
	$(BIN)/python -m bench.throughput --size 1024

bench-quick: jars
	$(BIN)/python -m bench.throughput --quick

# Some 15 minutes; BENCH_SPARK='--rows 500000 --large 100000' is a short one.
bench-spark: jars
	$(BIN)/python -m bench.spark $(BENCH_SPARK)

FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.stamp
	$(BIN)/python tools/fuzz.py --seconds $(FUZZ_SECONDS)

messages: jars
	$(BIN)/python tools/gen_messages.py

jars: $(VENV)/.stamp tools
	$(BIN)/python -m kclient.testing.jars $(KAFKA_VERSIONS)

# The key server and library for the tests of GSSAPI, where they can be had.
kerberos: $(VENV)/.stamp
	@tools/install_krb5.sh $(BIN)/python

tools:
	@command -v java >/dev/null && command -v mvn >/dev/null || \
	  { echo "kclient's tests need Java 17 and Maven: on Debian, apt-get install openjdk-17-jdk-headless maven" >&2; exit 1; }

$(VENV)/.stamp: pyproject.toml setup.py $(wildcard kclient/records/_compiled*.p[yx]*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

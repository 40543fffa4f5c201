#!/usr/bin/env bash
# Runs the integration tests against Kafka in a container: in the engine that runs, else in
# one started for this run (as root, on Linux) and stopped after it.
#   KCLIENT_TEST_IMAGE=apache/kafka:4.3.1 run.sh   an image that can be pulled
#   run.sh                                         one built from this machine's Java and jars
set -euo pipefail
cd "$(dirname "$0")/../.."

engine_pid=
engine_dir=
own_bridge=
report=$(mktemp)

stop_engine() {
    if [[ -n $engine_pid ]]; then
        kill "$engine_pid" 2>/dev/null || true
        wait "$engine_pid" || true
        if [[ -n $own_bridge ]]; then
            ip link delete docker0 2>/dev/null || true
        fi
        echo "stopped the Docker engine of this run (pid $engine_pid)"
    fi
    if [[ -n $engine_dir ]]; then
        rm -rf "$engine_dir"
    fi
    rm -f "$report"
}

install_engine() {
    if ! command -v apt-get >/dev/null; then
        echo "no Docker engine: install Docker and start it" >&2
        exit 1
    fi
    echo "installing Docker's engine (docker.io)"
    # Runlevel 1 keeps the package from starting a service that nobody would stop.
    apt-get update -qq
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends docker.io iptables >/dev/null
}

start_engine() {
    if [[ $(id -u) != 0 ]]; then
        echo "no Docker engine answers, and only root can start one" >&2
        exit 1
    fi
    command -v dockerd >/dev/null || install_engine
    engine_dir=$(mktemp -d -t kclient-docker-XXXXXX)
    export DOCKER_HOST="unix://$engine_dir/docker.sock"
    # The engine makes this network device, and leaves it behind.
    [[ -e /sys/class/net/docker0 ]] || own_bridge=yes
    # No firewall rules: the engine's own proxy forwards the one port that is needed.
    dockerd --host "$DOCKER_HOST" --data-root "$engine_dir/data" --exec-root "$engine_dir/exec" \
        --pidfile "$engine_dir/pid" --iptables=false --ip-forward=false --ip-masq=false \
        >"$engine_dir/log" 2>&1 &
    engine_pid=$!
    for _ in $(seq 150); do
        if docker version >/dev/null 2>&1; then
            echo "started a Docker engine for this run (pid $engine_pid)"
            return
        fi
        kill -0 "$engine_pid" 2>/dev/null || break
        sleep 0.2
    done
    echo "the Docker engine did not come up; its log ends with:" >&2
    tail -n 20 "$engine_dir/log" >&2
    exit 1
}

trap stop_engine EXIT
if docker version >/dev/null 2>&1; then
    echo "using the Docker engine that runs"
else
    start_engine
fi
if [[ -z ${KCLIENT_TEST_IMAGE:-} ]]; then
    export KCLIENT_TEST_IMAGE=kclient-test/kafka:4.3.1
    tools/container/build_image.sh "$KCLIENT_TEST_IMAGE"
fi
# The cleaner that testcontainers would start is an image of its own, to be pulled.
export TESTCONTAINERS_RYUK_DISABLED=true
unset KCLIENT_TEST_BOOTSTRAP
.venv/bin/python -m pytest tests/integration -m container "$@" | tee "$report"
# Without a container the tests would have run against a local Kafka, and passed too.
grep -q "^integration tests run against: a container" "$report"

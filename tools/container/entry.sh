#!/bin/bash
# Starts Kafka with the server properties that the environment spells as for the official
# image: KAFKA_NODE_ID=1 is node.id=1. Two underscores stand for one, three for a dash.
# Nothing but bash and Java is in this image, so everything here is a builtin.
set -euo pipefail

# Variables that the official image reads itself, and that are no server properties.
not_properties=" VERSION HEAP_OPTS OPTS LOG4J_OPTS JMX_OPTS JVM_PERFORMANCE_OPTS GC_LOG_OPTS \
LOG4J_ROOT_LOGLEVEL LOG4J_LOGGERS TOOLS_LOG4J_LOGLEVEL JMX_HOSTNAME "

property_name() {
    local name=${1,,}
    name=${name//___/-}
    name=${name//__/$'\n'}
    name=${name//_/.}
    printf '%s' "${name//$'\n'/_}"
}

export KAFKA_LOG_DIRS=${KAFKA_LOG_DIRS:-/tmp/kraft-combined-logs}
config=/tmp/server.properties
for variable in "${!KAFKA_@}"; do
    name=${variable#KAFKA_}
    if [[ $not_properties != *" $name "* ]]; then
        printf '%s=%s\n' "$(property_name "$name")" "${!variable}"
    fi
done >"$config"

run=(/opt/java/bin/java "-Dlog4j2.configurationFile=file:/opt/kafka/log4j2.properties"
    -cp '/opt/kafka/libs/*')
"${run[@]}" -Xmx128m kafka.tools.StorageTool format --ignore-formatted \
    -t "${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}" -c "$config"
# Word splitting is wanted: the variable holds JVM flags.
# shellcheck disable=SC2086
exec "${run[@]}" ${KAFKA_HEAP_OPTS:--Xmx512m} kafka.Kafka "$config"

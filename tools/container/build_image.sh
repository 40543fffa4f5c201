#!/usr/bin/env bash
# Builds an image of Kafka from what is on this machine, for where none can be pulled: its
# JRE, the shared libraries that needs, bash, and Kafka's jars. Linux only.
#   build_image.sh <image name> [<Kafka version>]
set -euo pipefail
cd "$(dirname "$0")/../.."

image=$1
version=${2:-4.3.1}
jre=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
libs=$(.venv/bin/python -c 'import sys; from kclient.testing.jars import kafka_libs
print(kafka_libs(sys.argv[1]))' "$version")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# Each shared library that these programs and libraries load, and their loader.
needed() {
    ldd "$@" 2>/dev/null | grep -o '/[^ ]*' | grep -v ':$' | sort -u
}

mkdir -p "$root"/{bin,tmp,opt/java,opt/kafka}
chmod 1777 "$root/tmp"
# Distributions link parts of a JRE to /etc: take what the links lead to.
tar -C "$jre" -ch --exclude=jmods --exclude=src.zip --exclude=man --exclude=docs \
    --exclude=include --exclude=demo --ignore-failed-read --warning=no-failed-read . |
    tar -C "$root/opt/java" -x
mkdir "$root/opt/kafka/libs"
cp "$libs"/*.jar "$root/opt/kafka/libs/"
cp tools/container/entry.sh tools/container/log4j2.properties "$root/opt/kafka/"

programs=(/bin/bash /bin/sleep /bin/hostname)
cp "${programs[@]}" "$root/bin/"
ln -s bash "$root/bin/sh"
mapfile -t libraries < <(find "$jre/lib" -name '*.so'; printf '%s\n' "$jre/bin/java" "${programs[@]}")
# Native parts of jars (snappy, zstd) name these too; newer C libraries keep them as stubs.
mapfile -t stubs < <(ldconfig -p | grep -oE '/[^ ]*/(libdl|libpthread|librt|libm)\.so\.[0-9]$')
for library in $(needed "${libraries[@]}") "${stubs[@]}"; do
    if [[ $library != "$jre"/* ]]; then
        mkdir -p "$root$(dirname "$library")"
        cp -Lu "$library" "$root$library"
    fi
done

# An import is `FROM scratch` and one layer, and needs no builder besides the engine.
tar -C "$root" -c --owner=0 --group=0 . |
    docker import --change 'ENTRYPOINT ["/bin/bash", "/opt/kafka/entry.sh"]' \
        --change 'ENV PATH=/opt/java/bin:/bin' --change 'EXPOSE 9092' - "$image" >/dev/null
echo "built $image: Kafka $version, $(du -sm "$root" | cut -f1) MB"

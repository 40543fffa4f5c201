#!/usr/bin/env bash
# Kerberos for the tests of GSSAPI: MIT's key server by apt-get, where we are root and have it,
# and the gssapi package for the Python that is given, where its library is installed.
# Never fails: without them those tests are skipped, and say why.
set -u
python=${1:?usage: tools/install_krb5.sh <python>}
packages="krb5-kdc krb5-admin-server krb5-user libkrb5-dev"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
PATH=$PATH:/usr/sbin:/sbin

quietly() { timeout 600 "$@" >"$log" 2>&1; }
complain() { echo "install_krb5: $1, so the tests of GSSAPI will be skipped" >&2; tail -n 3 "$log" >&2; }
apt_install() {
  # shellcheck disable=SC2086  # several packages
  DEBIAN_FRONTEND=noninteractive quietly apt-get install -y --no-install-recommends $packages
}
has_kerberos() { command -v krb5kdc && command -v kadmin.local && command -v kinit && command -v krb5-config; }

if ! has_kerberos >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    complain "no Kerberos here, and no root with apt-get to install $packages"
    exit 0
  fi
  apt_install || { quietly apt-get update && apt_install; } || { complain "apt-get failed"; exit 0; }
fi
"$python" -c 'import gssapi' 2>/dev/null ||
  quietly "$python" -m pip install --disable-pip-version-check 'gssapi>=1.8' ||
  complain "pip could not build gssapi"
exit 0

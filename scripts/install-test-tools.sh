#!/usr/bin/env bash
# Installs what the tests need beyond npm, and starts the container engine.
# For a bare Debian 12, as root. Does nothing if all of it is installed.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

# Another installation may be in progress, for example on a machine that has just started.
install() { apt-get -o DPkg::Lock::Timeout=600 install -qq --yes --no-install-recommends "$@" >/dev/null; }

# Commands, each with the package that contains it.
tools=(
  dockerd:docker.io
  iptables:iptables
  mmdebstrap:mmdebstrap
  promtool:prometheus
  nginx:nginx
  wrk:wrk
  slowhttptest:slowhttptest
  testssl:testssl.sh
  chromium:chromium
  go:golang-go
  php:php-cli
  javac:default-jdk-headless
  ruby:ruby
  mcs:mono-mcs
  mono:mono-runtime
  softhsm2-util:softhsm2
)
missing=()
for tool in "${tools[@]}"; do
  command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done
python3 -c 'import cryptography' 2>/dev/null || missing+=(python3-cryptography)

# Libraries for the kits' tests (see kits/README.md).
libraries=(
  php-curl php-guzzlehttp-guzzle composer
  python3-cryptography python3-requests
  libgoogle-gson-java libokhttp-java
  ruby-faraday
  libmono-system-json4.0-cil libmono-system-net-http4.0-cil
  # For two KMS plug-ins in test/kms: one in front of an HSM, and one in Go.
  python3-grpcio python3-grpc-tools python3-pykcs11 golang-google-grpc-dev
)
for library in "${libraries[@]}"; do
  dpkg --status "$library" &>/dev/null || missing+=("$library")
done

# Debian installs the server's programs outside of the PATH.
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)

if ((${#missing[@]} > 0)); then
  # Tests start Prometheus themselves, on free ports, so its installation must not start one.
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  apt-get update -qq
  # Tests create their own database servers, so the one that Debian would create on installation is not needed.
  install postgresql-common
  sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
  install "${missing[@]}"
fi

# Debian 12's kubectl does not know components. If no configured source has a later version, install that of Debian 13.
if ! command -v kubectl >/dev/null; then
  apt-get update -qq
  kubectl=kubectl
  if ! apt-cache show kubectl &>/dev/null; then
    next=$(mktemp -d)
    chown _apt "$next"
    mkdir -p "$next/lists/partial"
    debian=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
      sed -n 's/^Debian bookworm main //p' | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $debian trixie main" >"$next/sources.list"
    options=(-o Dir::Etc::SourceList="$next/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$next/lists")
    apt-get -qq "${options[@]}" update
    (cd "$next" && apt-get -qq "${options[@]}" download kubectl)
    kubectl=$(echo "$next"/kubectl_*.deb)
  fi
  install "$kubectl"
  rm -rf "${next-}"
fi

if ! docker version >/dev/null 2>&1; then
  setsid --fork dockerd >/var/log/dockerd.log 2>&1 </dev/null
  for _ in {1..120}; do
    docker version >/dev/null 2>&1 && exit
    sleep 0.25
  done
  tail -n 20 /var/log/dockerd.log >&2
  echo 'dockerd did not start' >&2
  exit 1
fi

#!/bin/sh
# Builds the driver, unless it is already built, and runs it.
set -e
cd "$(dirname "$0")"
build=../../node_modules/.cache/kits/go
go build -o "$build/driver" ./driver
exec "$build/driver"

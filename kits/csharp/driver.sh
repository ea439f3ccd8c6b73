#!/bin/sh
# Compiles the driver if a source is newer, and runs it.
set -e
cd "$(dirname "$0")"
build=../../node_modules/.cache/kits/csharp
mkdir -p "$build"
if [ -z "$(find "$build/driver.exe" -newer Envelope.cs -newer EnvelopeHandler.cs -newer Driver.cs 2>/dev/null)" ]; then
  mcs -warnaserror -out:"$build/driver.exe" -r:System.Net.Http.dll -r:System.Json.dll \
    Envelope.cs EnvelopeHandler.cs Driver.cs >&2
fi
exec mono "$build/driver.exe"

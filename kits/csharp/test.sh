#!/bin/sh
# Runs the kit's tests and, if there is a sidecar at $BASE, the example in README.md in every state of a rotation.
set -e
cd "$(dirname "$0")"
build=../../node_modules/.cache/kits/csharp
mkdir -p "$build"
mcs -warnaserror -out:"$build/test.exe" Envelope.cs Test.cs
mono "$build/test.exe"
if [ -n "$BASE" ]; then
  . ../end-to-end/examples.sh
  sed -n '/^```csharp run$/,/^```$/p' README.md | sed '1d;$d' >"$build/Readme.cs"
  mcs -out:"$build/readme.exe" -r:System.Net.Http.dll Envelope.cs EnvelopeHandler.cs "$build/Readme.cs"
  example() {
    mono "$build/readme.exe"
  }
  in_every_state "$build/readme.txt"
fi

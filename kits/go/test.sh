#!/bin/sh
# Runs the kit's tests and, if there is a sidecar at $BASE, the example in README.md in every state of a rotation.
set -e
cd "$(dirname "$0")"
[ -z "$(gofmt -l .)" ]
go vet ./...
go test -count=1 -timeout 120s ./...
if [ -n "$BASE" ]; then
  . ../end-to-end/examples.sh
  example=../../node_modules/.cache/kits/go-readme
  mkdir -p "$example"
  sed -n '/^```go run$/,/^```$/p' README.md | sed '1d;$d' >"$example/main.go"
  printf 'module readme\n\ngo 1.19\n\nrequire envelope-sidecar/kits/go v0.2.0\n\nreplace envelope-sidecar/kits/go => %s\n' "$PWD" >"$example/go.mod"
  (cd "$example" && GOFLAGS=-mod=mod GOPROXY=off go build -o readme .)
  example() {
    "$example/readme"
  }
  in_every_state "$example/readme.txt"
fi

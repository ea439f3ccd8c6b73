import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import type { RoutingUpstream } from './routing-upstreams.ts';
import { missingTools } from './tools.ts';

/** Why Go cannot build and run a program on this machine; undefined if it can. */
export const goMissing = missingTools('go');

/** A program that prints its port in the first line, and then the id of each request. */
const program = `
package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

func asciiLower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

func kind(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Resource", kind)
		w.Header().Set("X-Target", r.RequestURI)
		fmt.Fprint(w, "ok")
	}
}

// One resource directly below a path, and another for the rest of the subtree.
func below(path string, is func(rest string) bool, one, other http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if is(strings.TrimPrefix(r.URL.Path, path)) {
			one(w, r)
		} else {
			other(w, r)
		}
	}
}

func main() {
	plainPublic, sealedPublic := kind("plain public"), kind("sealed public")
	sealedSecret, plainSecret := kind("sealed secret"), kind("plain secret")
	isEmpty := func(rest string) bool { return rest == "" }
	isSegment := func(rest string) bool {
		segment := strings.TrimSuffix(rest, "/")
		return segment != "" && !strings.Contains(segment, "/")
	}
	mux := http.NewServeMux()
	mux.Handle("/", plainSecret)
	initialize := "/api/v1/transactions/initialize"
	mux.Handle(initialize, plainPublic)
	mux.Handle(initialize+"/", below(initialize+"/", isEmpty, plainPublic, plainSecret))
	mux.Handle("/api/s2s/checkout", sealedSecret)
	mux.Handle("/api/s2s/checkout/", below("/api/s2s/checkout/", isSegment, sealedPublic, sealedSecret))
	mux.Handle("/api/s2s/webhooks", plainPublic)
	mux.Handle("/api/s2s/webhooks/", plainPublic)
	mux.Handle("/api/s2s", sealedSecret)
	mux.Handle("/api/s2s/", sealedSecret)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("X-Request-Id"))
		r.URL.Path = strings.Map(asciiLower, r.URL.Path)
		mux.ServeHTTP(w, r)
	})))
}
`;

/**
 * Starts Go's net/http with its ServeMux, which redirects a request if its path has to be cleaned. It routes on the decoded path, in which
 * only ASCII letters are lower-cased, as in the sidecar.
 */
export async function startRoutingGo(): Promise<RoutingUpstream> {
  const folder = mkdtempSync(join(tmpdir(), 'go-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'main.go'), program);
  await promisify(execFile)('go', ['build', '-o', 'upstream', 'main.go'], { cwd: folder });
  const child = spawn(join(folder, 'upstream'), { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => void child.once('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const seen: string[] = [];
  const port = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    void ended.then(() => reject(new Error('the program in Go has ended')));
    const lines = createInterface({ input: child.stdout });
    lines.once('line', (line) => {
      resolve(Number(line));
      lines.on('line', (id) => void seen.push(id));
    });
  });
  return { address: { host: '127.0.0.1', port }, seen: () => seen };
}

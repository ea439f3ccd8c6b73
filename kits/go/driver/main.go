// Runs this kit for kits/conformance: one JSON object per line on stdin, one outcome per line on stdout.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	envelope "envelope-sidecar/kits/go"
)

type operation struct {
	Op, Key, IV, Encoding, Plaintext, Data, URL, Method string
	KeyText                                             string `json:"key_text"`
	Headers                                             map[string]string
	Body                                                *string
	Migrating                                           bool
	TimeoutMS                                           int   `json:"timeout_ms"`
	MaxBytes                                            int64 `json:"max_bytes"`
	AnyID                                               bool  `json:"any_id"`
}

type outcome map[string]any

// One client for each set of options. It is kept during rotations.
var clients = map[string]*http.Client{}
var current *envelope.Envelope

func clientFor(op operation) *http.Client {
	if op.TimeoutMS == 0 {
		op.TimeoutMS = 10_000
	}
	if op.MaxBytes == 0 {
		op.MaxBytes = 65_536
	}
	name := fmt.Sprint(op.Migrating, op.TimeoutMS, op.MaxBytes, op.AnyID)
	if clients[name] == nil {
		clients[name] = envelope.NewClient(envelope.Options{
			Envelope:     func() (*envelope.Envelope, error) { return current, nil },
			Migrating:    op.Migrating,
			Timeout:      time.Duration(op.TimeoutMS) * time.Millisecond,
			MaxBytes:     op.MaxBytes,
			AnyRequestID: op.AnyID,
		})
	}
	return clients[name]
}

func call(op operation, sealer *envelope.Envelope) (outcome, error) {
	current = sealer
	var body io.Reader
	if op.Body != nil {
		body = strings.NewReader(*op.Body)
	}
	request, err := http.NewRequest(op.Method, op.URL, body)
	if err != nil {
		return nil, err
	}
	for name, value := range op.Headers {
		request.Header.Set(name, value)
	}
	response, err := clientFor(op).Do(request)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(response.Body)
	return outcome{"status": response.StatusCode, "type": response.Header.Get("Content-Type"), "body": string(content)}, err
}

func shown(e *envelope.Envelope) []string {
	whole, _ := json.Marshal(map[string]any{"envelope": e})
	nested := struct{ Sealer *envelope.Envelope }{e}
	texts := []string{e.String(), string(whole)}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		texts = append(texts, fmt.Sprintf(format, e), fmt.Sprintf(format, *e), fmt.Sprintf(format, nested))
	}
	return texts
}

func run(op operation) (outcome, error) {
	switch op.Op {
	case "clients":
		return outcome{"clients": []string{"net-http"}}, nil
	case "selftest":
		passed, err := envelope.Selftest()
		return outcome{"passed": passed}, err
	}
	sealer, err := envelope.New(envelope.Config{Key: op.Key, IV: op.IV, KeyText: op.KeyText, Encoding: op.Encoding})
	if err != nil {
		return nil, err
	}
	switch op.Op {
	case "call":
		return call(op, sealer)
	case "seal":
		data, err := sealer.Seal(op.Plaintext)
		return outcome{"data": data}, err
	case "open":
		text, err := sealer.Open(op.Data)
		return outcome{"plaintext": text}, err
	case "fingerprint":
		return outcome{"fingerprint": sealer.Fingerprint()}, nil
	case "show":
		return outcome{"shown": shown(sealer)}, nil
	case "compat":
		return outcome{"plaintext": sealer.Compat().Open(op.Data), "data": sealer.Compat().Seal("\xff")}, nil
	}
	return outcome{"error": outcome{"type": "driver", "code": "unknown_op"}}, nil
}

func errorOf(err error) outcome {
	var unsealed *envelope.Error
	var refusal *envelope.Refusal
	var unknown *envelope.OutcomeUnknown
	switch {
	case errors.As(err, &unknown):
		found := outcome{"type": "outcome_unknown", "code": unknown.Reason, "status": unknown.Status, "request_id": unknown.RequestID, "message": unknown.Error()}
		if errors.As(unknown, &refusal) {
			found["refusal"] = errorOf(refusal)
		}
		return found
	case errors.As(err, &refusal):
		found := outcome{"type": "refusal", "status": refusal.Status, "code": refusal.Code, "request_id": refusal.RequestID, "forwarded": refusal.Forwarded, "message": refusal.Error()}
		if refusal.Hint != "" {
			found["hint"] = refusal.Hint
		}
		if refusal.RetryAfter >= 0 {
			found["retry_after"] = refusal.RetryAfter.Seconds()
		}
		return found
	case errors.As(err, &unsealed):
		return outcome{"type": "envelope", "code": unsealed.Code, "message": unsealed.Error()}
	}
	return outcome{"type": "other", "message": err.Error()}
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var op operation
		decoder := json.NewDecoder(bytes.NewReader(line))
		found := outcome{}
		if err = decoder.Decode(&op); err == nil {
			found, err = run(op)
		}
		if err != nil {
			found = outcome{"error": errorOf(err)}
		}
		written, _ := json.Marshal(found)
		fmt.Printf("%s\n", written)
	}
}

package envelope

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Refusal says that the sidecar refused the request. Decide by Code, never by Status.
type Refusal struct {
	Status                int
	Code, Hint, RequestID string
	RetryAfter            time.Duration // negative if there was none
	Forwarded             string        // "no" if the core has not seen the request, else "maybe"
	detail                string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.detail) }

// OutcomeUnknown says that the payment may have been made: look it up by your reference before you send it again.
type OutcomeUnknown struct {
	Reason    string // lost, swapped, status, refused (by a *Refusal), unsealed, not_opened or too_large
	Status    int    // 0 if there was no response
	RequestID string
	cause     error
}

func (o *OutcomeUnknown) Error() string {
	return fmt.Sprintf("the outcome is unknown: %s, status %d", o.Reason, o.Status)
}

func (o *OutcomeUnknown) Unwrap() error { return o.cause }

// Options of a client. Only Envelope is required.
type Options struct {
	// The credentials to use: called for each request, so that a rotation needs no restart.
	Envelope func() (*Envelope, error)
	// Paths whose bodies are sealed. Default: /api/s2s/. The two test endpoints are never among them.
	Prefixes []string
	// Whether a 2xx may be unsealed; use this only while an account starts or stops encrypting.
	Migrating bool
	// The longest wait for a whole response. Default: 60 s.
	Timeout time.Duration
	// The longest body of a response. Default: 16 MiB.
	MaxBytes int64
	// The maximum number of times that a request is sent again if the core has not seen it. Default: 2; less than 0: never.
	Retries int
	// Whether the gateway in front replaces X-Request-Id, so that a response need not have its request's.
	AnyRequestID bool
	// Default: a copy of http.DefaultTransport.
	Transport http.RoundTripper
}

// If Retry-After exceeds this, waiting is left to the caller.
const longestWait = time.Minute

// NewClient returns a client whose errors are *Error (nothing was sent), *Refusal or *OutcomeUnknown, for errors.As. It
// follows no redirects.
func NewClient(options Options) *http.Client {
	if options.Prefixes == nil {
		options.Prefixes = []string{"/api/s2s/"}
	}
	if options.Timeout == 0 {
		options.Timeout = time.Minute
	}
	if options.MaxBytes == 0 {
		options.MaxBytes = 16 << 20
	}
	if options.Retries == 0 {
		options.Retries = 2
	}
	if options.Transport == nil {
		options.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: &transport{options}, CheckRedirect: stay}
}

type transport struct{ options Options }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(original *http.Request) (*http.Response, error) {
	envelope, err := t.options.Envelope()
	if err != nil {
		return nil, err
	}
	request := original.Clone(original.Context())
	if request.Header.Get("X-Request-Id") == "" {
		id := make([]byte, 16)
		if _, err := rand.Read(id); err != nil {
			return nil, err
		}
		request.Header.Set("X-Request-Id", hex.EncodeToString(id))
	}
	body, err := bodyOf(original)
	if err != nil {
		return nil, err
	}
	if !t.isEnveloped(request.URL.Path) {
		envelope = nil
	} else {
		request.Header.Set("Envelope-Credentials", envelope.Fingerprint())
		if len(body) > 0 {
			if !utf8.Valid(body) {
				return nil, &Error{"not_utf8", "the body is not UTF-8"}
			}
			sealed, err := envelope.SealBody(string(body))
			if err != nil {
				return nil, err
			}
			body = []byte(sealed)
			request.Header.Set("Content-Type", "application/json")
		}
	}
	for attempt := 0; ; attempt++ {
		response, err := t.exchange(request, body, envelope)
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Forwarded != "no" || attempt >= t.options.Retries {
			return response, err
		}
		if refusal.RetryAfter < 0 || refusal.RetryAfter > longestWait {
			return response, err
		}
		select {
		case <-time.After(refusal.RetryAfter):
		case <-request.Context().Done():
			return nil, err
		}
	}
}

// Sends once and opens the response; envelope is nil if nothing is sealed.
func (t *transport) exchange(request *http.Request, body []byte, envelope *Envelope) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(request.Context(), t.options.Timeout)
	defer cancel()
	request = request.Clone(ctx)
	// Without GetBody, and with a reader that net/http cannot look into, it never sends a body a second time.
	request.GetBody = nil
	request.Body = http.NoBody
	request.ContentLength = int64(len(body))
	if len(body) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	response, err := t.options.Transport.RoundTrip(request)
	if err != nil {
		return nil, &OutcomeUnknown{Reason: "lost", cause: err}
	}
	defer response.Body.Close()
	unknown := func(reason string, cause error) (*http.Response, error) {
		return nil, &OutcomeUnknown{reason, response.StatusCode, response.Header.Get("X-Request-Id"), cause}
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, t.options.MaxBytes+1))
	if err != nil {
		return unknown("lost", err)
	}
	if int64(len(content)) > t.options.MaxBytes {
		return unknown("too_large", nil)
	}
	status, headers := response.StatusCode, response.Header
	succeeded := status >= 200 && status < 300
	contentType := headers.Get("Content-Type")
	if !t.options.AnyRequestID && (succeeded || headers.Get("Envelope") != "" || isProblem(contentType)) {
		// After one response too many on a connection, each request gets the response to the previous one.
		if id := headers.Get("X-Request-Id"); id != "" && id != request.Header.Get("X-Request-Id") {
			return unknown("swapped", nil)
		}
	}
	if request.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		envelope = nil
	}
	sealed := envelope != nil && strings.EqualFold(headers.Get("Envelope"), "sealed")
	if sealed {
		text, err := envelope.OpenBody(string(content))
		if err != nil {
			return unknown("not_opened", err)
		}
		content = []byte(text)
		contentType = headers.Get("Envelope-Content-Type")
		if contentType == "" {
			contentType = "application/json"
		}
	}
	if status >= 400 && isProblem(contentType) {
		if refusal := refusalIn(content, status, headers.Get("Retry-After")); refusal != nil {
			if status >= 500 && refusal.Forwarded != "no" {
				return unknown("refused", refusal)
			}
			return nil, refusal
		}
	}
	if status == 502 || status == 503 || status == 504 {
		return unknown("status", nil)
	}
	if envelope != nil && succeeded && !sealed && len(content) > 0 && !t.options.Migrating {
		return unknown("unsealed", nil)
	}
	if sealed {
		headers.Set("Content-Type", contentType)
		headers.Del("Envelope-Content-Type")
		headers.Del("Content-Length")
		response.ContentLength = int64(len(content))
	}
	response.Body = io.NopCloser(bytes.NewReader(content))
	return response, nil
}

func bodyOf(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	defer request.Body.Close()
	return io.ReadAll(request.Body)
}

// Matches paths as the sidecar does, ignoring case and a slash at the end.
func (t *transport) isEnveloped(path string) bool {
	path = strings.TrimSuffix(strings.ToLower(path), "/")
	if path == "/api/s2s/aes-encrypt" || path == "/api/s2s/aes-decrypt" {
		return false
	}
	for _, prefix := range t.options.Prefixes {
		if strings.HasPrefix(path+"/", prefix) {
			return true
		}
	}
	return false
}

var problem = regexp.MustCompile(`(?i)^application/problem\+json\b`)

func isProblem(contentType string) bool { return problem.MatchString(contentType) }

// Nil if this is not a problem document from the sidecar.
func refusalIn(content []byte, status int, retryAfter string) *Refusal {
	var members struct {
		Code      *string `json:"code"`
		RequestID *string `json:"request_id"`
		Hint      string  `json:"hint"`
		Detail    string  `json:"detail"`
		Forwarded string  `json:"forwarded"`
	}
	if json.Unmarshal(content, &members) != nil || members.Code == nil || members.RequestID == nil {
		return nil
	}
	refusal := &Refusal{status, *members.Code, members.Hint, *members.RequestID, -1, "maybe", members.Hint}
	if refusal.detail == "" {
		refusal.detail = members.Detail
	}
	if members.Forwarded == "no" {
		refusal.Forwarded = "no"
	}
	if seconds, err := strconv.ParseUint(retryAfter, 10, 20); err == nil {
		refusal.RetryAfter = time.Duration(seconds) * time.Second
	}
	return refusal
}

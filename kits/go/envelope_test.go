package envelope

import (
	"errors"
	"math"
	"testing"
)

func demo(t *testing.T) *Envelope {
	t.Helper()
	e, err := New(Config{Key: "demo-key-of-acme-not-a-secret-32", IV: "demo-iv-of-acme-"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func refuses(t *testing.T, code string, err error) {
	t.Helper()
	var found *Error
	if !errors.As(err, &found) || found.Code != code {
		t.Errorf("%v instead of %s", err, code)
	}
}

func TestSelftest(t *testing.T) {
	if passed, err := Selftest(); err != nil || passed != 8 {
		t.Error(passed, err)
	}
}

func TestValueComesBack(t *testing.T) {
	e := demo(t)
	data, err := e.SealJSON(map[string]any{"name": "Zoë"})
	var opened struct{ Name string }
	if err != nil || e.OpenJSON(data, &opened) != nil || opened.Name != "Zoë" {
		t.Error(opened, err)
	}
}

func TestNotSealed(t *testing.T) {
	e := demo(t)
	_, err := e.Seal("\"\xe9\"")
	refuses(t, "not_utf8", err)
	_, err = e.SealJSON(math.NaN())
	refuses(t, "not_json", err)
}

func TestNotJson(t *testing.T) {
	e := demo(t)
	data, _ := e.Seal(`{"a":`)
	var value any
	refuses(t, "not_json", e.OpenJSON(data, &value))
}

func TestNoEnvelope(t *testing.T) {
	for _, body := range []string{`{}`, `[]`, `{"data":1}`, `{"data":"00","a":1}`, `{"data":"00","data":"00"}`, `{"Data":"00"}`, ``} {
		_, err := demo(t).OpenBody(body)
		refuses(t, "malformed", err)
	}
}

func TestBytesAsKey(t *testing.T) {
	_, err := New(Config{Key: "demo-key-of-acme-not-a-secret-3\xff", IV: "demo-iv-of-acme-"})
	refuses(t, "key_decoded", err)
}

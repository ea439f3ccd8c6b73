// A reverse proxy in Go that opens and seals envelopes: net/http/httputil, crypto/aes and encoding/json.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

type settings struct {
	Port      int    `json:"port"`
	Upstream  int    `json:"upstream"`
	AccessLog string `json:"accessLog"`
	Accounts  map[string]struct {
		Account string `json:"account"`
		Key     string `json:"key"`
		IV      string `json:"iv"`
	} `json:"accounts"`
	Refusals map[string]refusal `json:"refusals"`
}

type refusal struct {
	Status int       `json:"status"`
	Body   [2]string `json:"body"`
}

type account struct {
	id string
	// Nil if the account does not encrypt.
	block cipher.Block
	iv    []byte
}

type gateway struct {
	accounts map[[sha256.Size]byte]*account
	refusals map[string]refusal
	proxy    *httputil.ReverseProxy
	log      *accessLog
	counter  counter
}

const maxEnvelope = 4 << 20

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	requestID := r.Header.Get("X-Request-Id")
	if requestID == "" {
		requestID = strconv.FormatInt(started.UnixNano(), 36)
		r.Header.Set("X-Request-Id", requestID)
	}
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	rec.Header().Set("X-Request-Id", requestID)
	holder := g.serve(rec, r, requestID)
	g.counter.add(r.Method, rec.status)
	g.log.write(requestID, holder, r, rec, time.Since(started))
}

// Serves the request and returns its account.
func (g *gateway) serve(w http.ResponseWriter, r *http.Request, requestID string) string {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	holder := g.accounts[sha256.Sum256([]byte(key))]
	if holder == nil {
		g.refuse(w, "invalid_api_key", requestID)
		return ""
	}
	r.Header.Set("X-Account-Id", holder.id)
	if holder.block == nil || !strings.HasPrefix(r.URL.Path, "/api/s2s/") {
		g.proxy.ServeHTTP(w, r)
		return holder.id
	}
	if r.ContentLength != 0 {
		plaintext, code := openEnvelope(holder, http.MaxBytesReader(w, r.Body, maxEnvelope), r.ContentLength)
		if code != "" {
			g.refuse(w, code, requestID)
			return holder.id
		}
		r.Body = io.NopCloser(bytes.NewReader(plaintext))
		r.ContentLength = int64(len(plaintext))
	}
	r.Header.Set("Accept-Encoding", "identity")
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sealingKey{}, holder)))
	return holder.id
}

func (g *gateway) refuse(w http.ResponseWriter, code, requestID string) {
	refusal := g.refusals[code]
	body := refusal.Body[0] + requestID + refusal.Body[1]
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	if refusal.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(refusal.Status)
	io.WriteString(w, body)
}

// Reads a body, whose size its sender may have stated.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length < 0 || length > maxEnvelope {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

func openEnvelope(holder *account, r io.Reader, length int64) (plaintext []byte, code string) {
	body, err := readAll(r, length)
	if err != nil {
		return nil, "envelope_malformed"
	}
	var envelope struct {
		Data *string `json:"data"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&envelope); err != nil || envelope.Data == nil {
		return nil, "envelope_malformed"
	}
	ciphertext, err := hex.DecodeString(*envelope.Data)
	if err != nil || len(ciphertext) == 0 || len(ciphertext)%aes.BlockSize != 0 {
		return nil, "decryption_failed"
	}
	cipher.NewCBCDecrypter(holder.block, holder.iv).CryptBlocks(ciphertext, ciphertext)
	plaintext, err = unpad(ciphertext)
	if err != nil || !json.Valid(plaintext) {
		return nil, "decryption_failed"
	}
	return plaintext, ""
}

func unpad(padded []byte) ([]byte, error) {
	length := int(padded[len(padded)-1])
	if length == 0 || length > aes.BlockSize {
		return nil, errors.New("bad padding")
	}
	for _, b := range padded[len(padded)-length:] {
		if int(b) != length {
			return nil, errors.New("bad padding")
		}
	}
	return padded[:len(padded)-length], nil
}

type sealingKey struct{}

// Seals the upstream's response if the request came from an account that encrypts.
func seal(response *http.Response) error {
	holder, sealing := response.Request.Context().Value(sealingKey{}).(*account)
	if !sealing || response.ContentLength == 0 {
		return nil
	}
	plaintext, err := readAll(response.Body, response.ContentLength)
	response.Body.Close()
	if err != nil {
		return err
	}
	padding := aes.BlockSize - len(plaintext)%aes.BlockSize
	ciphertext := append(plaintext, bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(holder.block, holder.iv).CryptBlocks(ciphertext, ciphertext)
	const head, tail = `{"data":"`, `"}`
	body := make([]byte, len(head)+hex.EncodedLen(len(ciphertext))+len(tail))
	copy(body, head)
	hex.Encode(body[len(head):], ciphertext)
	copy(body[len(body)-len(tail):], tail)
	response.Body = io.NopCloser(bytes.NewReader(body))
	response.ContentLength = int64(len(body))
	response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	response.Header.Set("Content-Type", "application/json")
	response.Header.Set("Envelope", "sealed")
	return nil
}

// Counts the status and the bytes of a response for the access log and the counter.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

func (r *recorder) Flush() {
	if flusher, ok := r.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

type counter struct {
	mutex  sync.Mutex
	counts map[labels]uint64
}

type labels struct {
	method string
	status int
}

func (c *counter) add(method string, status int) {
	c.mutex.Lock()
	c.counts[labels{method, status}]++
	c.mutex.Unlock()
}

// Gathers lines and writes them when there are many, or every second.
type accessLog struct {
	mutex  sync.Mutex
	line   []byte
	writer *bufio.Writer
}

func newAccessLog(path string) (*accessLog, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	l := &accessLog{writer: bufio.NewWriterSize(file, 64<<10)}
	go func() {
		for range time.Tick(time.Second) {
			l.mutex.Lock()
			l.writer.Flush()
			l.mutex.Unlock()
		}
	}()
	return l, nil
}

func (l *accessLog) write(requestID, holder string, r *http.Request, rec *recorder, duration time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	line := append(l.line[:0], `{"time":"`...)
	line = time.Now().UTC().AppendFormat(line, "2006-01-02T15:04:05.000Z")
	line = append(line, `","request_id":`...)
	line = strconv.AppendQuote(line, requestID)
	line = append(line, `,"account":"`...)
	line = append(line, holder...)
	line = append(line, `","method":"`...)
	line = append(line, r.Method...)
	line = append(line, `","status":`...)
	line = strconv.AppendInt(line, int64(rec.status), 10)
	line = append(line, `,"bytes_in":`...)
	line = strconv.AppendInt(line, r.ContentLength, 10)
	line = append(line, `,"bytes_out":`...)
	line = strconv.AppendInt(line, rec.bytes, 10)
	line = append(line, `,"duration_us":`...)
	line = strconv.AppendInt(line, duration.Microseconds(), 10)
	l.line = append(line, "}\n"...)
	l.writer.Write(l.line)
}

type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get() []byte  { return *p.pool.Get().(*[]byte) }
func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }

func main() {
	file, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var s settings
	if err := json.Unmarshal(file, &s); err != nil {
		log.Fatal(err)
	}
	access, err := newAccessLog(s.AccessLog)
	if err != nil {
		log.Fatal(err)
	}
	g := &gateway{
		accounts: make(map[[sha256.Size]byte]*account, len(s.Accounts)),
		refusals: s.Refusals,
		log:      access,
		counter:  counter{counts: make(map[labels]uint64)},
	}
	for hash, entry := range s.Accounts {
		var sum [sha256.Size]byte
		if _, err := hex.Decode(sum[:], []byte(hash)); err != nil {
			log.Fatal(err)
		}
		a := &account{id: entry.Account}
		if entry.Key != "" {
			if a.block, err = aes.NewCipher([]byte(entry.Key)); err != nil {
				log.Fatal(err)
			}
			a.iv = []byte(entry.IV)
		}
		g.accounts[sum] = a
	}
	upstream := fmt.Sprintf("127.0.0.1:%d", s.Upstream)
	g.proxy = &httputil.ReverseProxy{
		Director: func(r *http.Request) {
			r.URL.Scheme = "http"
			r.URL.Host = upstream
		},
		Transport:      &http.Transport{MaxIdleConnsPerHost: 2048, IdleConnTimeout: time.Minute, DisableCompression: true},
		ModifyResponse: seal,
		BufferPool: &bufferPool{sync.Pool{New: func() any {
			b := make([]byte, 64<<10)
			return &b
		}}},
	}
	server := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", s.Port), Handler: g, IdleTimeout: 75 * time.Second}
	log.Fatal(server.ListenAndServe())
}

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/record"
)

// every is how often a worker brings records, as real ones do.
const every = 200 * time.Millisecond

// piece is what a worker brings each time: a block of so many calls. Blocks stand for
// themselves, so that the same can come again and again.
type piece struct {
	head, block []byte
	calls       int
}

// newPiece has the writer of records make it.
func newPiece(calls int) (p piece, err error) {
	folder, err := os.MkdirTemp("", "windtunnel-bench-piece-")
	if err != nil {
		return p, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "r.wt")
	w, err := record.Create(path)
	if err != nil {
		return p, err
	}
	op := w.Op(record.Op{Source: "load", Step: "fill", Verb: "create", Resource: "configmaps", Scope: "resource"})
	w.Flush()
	head, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	for i := range calls {
		due := clock.Time(i) * clock.Time(100*time.Microsecond)
		w.Call(record.Call{Op: op, Due: due, Sent: due + 20_000, Done: due + 3_000_000 + clock.Time(i%977)*1000, Code: 201, SentBytes: 312, ReceivedBytes: 640, Number: uint32(100*i + 1)})
	}
	if err := w.Close(); err != nil {
		return p, err
	}
	whole, err := os.ReadFile(path)
	return piece{head, whole[len(head):], calls}, err
}

// simulated is one worker.
type simulated struct {
	access protocol.Access
	index  int
	token  string
	client *http.Client
	at     int64
	calls  int64
}

// simulateWorkers is the workers' process: it prints what it has brought.
func simulateWorkers(file string, s setting) error {
	var access []protocol.Access
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &access)
	}
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(access[0].CA)
	p, err := newPiece(int(float64(s.Rate) * every.Seconds()))
	if err != nil {
		return err
	}
	c := clock.Start()
	var wait sync.WaitGroup
	var total, calls atomic.Int64
	errs, ended := make([]error, s.Workers), make([]clock.Time, s.Workers)
	for i := range s.Workers {
		wait.Go(func() {
			w := &simulated{access: access[i], index: i, client: &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true,
			}}}
			first := clock.Time(every) * clock.Time(i) / clock.Time(s.Workers) // spread, as those who began together are not
			errs[i] = w.uploadUntilEnd(c, first, clock.Time(s.For), p)
			total.Add(w.at)
			calls.Add(w.calls)
			ended[i] = c.Now()
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"Calls": calls.Load(), "Bytes": total.Load(), "Behind": slices.Max(ended).Sub(clock.Time(s.For)).Seconds()})
}

// uploadUntilEnd brings records until the end, and reads the leader's clock every second.
func (w *simulated) uploadUntilEnd(c clock.Clock, first, until clock.Time, p piece) error {
	var in struct {
		Token string `json:"token"`
	}
	hello, err := json.Marshal(map[string]any{"secret": fmt.Sprint("simulated-", w.index)})
	if err != nil {
		return err
	}
	if err := w.sendRequest(http.MethodPost, "/join", hello, &in); err != nil {
		return err
	}
	w.token = in.Token
	if err := w.uploadRecords(p.head); err != nil {
		return err
	}
	for n := 0; ; n++ {
		at := first + clock.Time(n)*clock.Time(every)
		if at > until {
			return nil
		}
		time.Sleep(c.Until(at))
		if err := w.uploadRecords(p.block); err != nil {
			return err
		}
		w.calls += int64(p.calls)
		if n%5 == 0 {
			if err := w.sendRequest(http.MethodGet, "/time", nil, nil); err != nil {
				return err
			}
			if err := w.sendTally(); err != nil {
				return err
			}
		}
	}
}

// buckets is how many buckets of latencies a worker's calls fill: those from 1 ms to 1 s
// of a histogram of 128 a power of two are some 1,000, of which most are empty.
const buckets = 200

// sendTally says where the worker stands, which the leader is told each second.
func (w *simulated) sendTally() error {
	stands := load.Tally{Progress: load.Progress{Count: int(w.calls), Sent: int(w.calls), Ended: int(w.calls), OK: int(w.calls)}, Latencies: map[int]int64{}}
	for i := range buckets {
		stands.Latencies[1000+5*i] = w.calls/buckets + int64(i)
	}
	body, err := json.Marshal(map[string]any{"what": "progress", "body": map[string]any{"load": stands}})
	if err != nil {
		return err
	}
	return w.sendRequest(http.MethodPost, "/report", body, nil)
}

func (w *simulated) uploadRecords(b []byte) error {
	var kept struct {
		Size int64 `json:"size"`
	}
	if err := w.sendRequest(http.MethodPut, fmt.Sprintf("/records?at=%d&clock=0,1000,false", w.at), b, &kept); err != nil {
		return err
	}
	w.at += int64(len(b))
	if kept.Size != w.at {
		return fmt.Errorf("%w: it has %d bytes of %d", errAnswer, kept.Size, w.at)
	}
	return nil
}

func (w *simulated) sendRequest(method, path string, body []byte, into any) error {
	req, err := http.NewRequest(method, w.access.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.access.Token)
	req.Header.Set("Windtunnel-Worker", fmt.Sprintf("%d:%s", w.index, w.token))
	answer, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		return fmt.Errorf("%w: %d %s", errAnswer, answer.StatusCode, raw)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}

package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The stream is a header and then blocks: length (4 bytes, little endian),
// CRC-32C of the payload (4 bytes), payload. A payload is a sequence of
// records: a kind byte and varint fields, times as differences to the block's
// previous time. A block that was cut off by a crash is recognised and ends
// the stream, so a crash costs at most what was written since the last flush.
const (
	streamTitle  = "windtunnel records "
	streamHeader = streamTitle + "2\n"
	flushEvery   = 500 * time.Millisecond
	flushBytes   = 256 << 10
	maxBlock     = 64 << 20 // a reader refuses more: such a length is damage
	maxText      = 64 << 10 // of an event
	stall        = 10 * time.Millisecond
)

const (
	kindOp byte = iota + 1
	kindObject
	kindSeries
	kindCall
	kindPhase
	kindSampleInt
	kindSampleFloat
	kindMark  // of format 1
	kindRetry // a call with its attempt behind it
	kindText  // a text that series refer to
	kindSeriesRef
	kindFamily
	kindScrape
	kindLifecycle    // an object of a declared lifecycle, which is named behind it
	kindPhaseWithin  // a phase with its Within behind it
	kindEvent        // of format 2 on
	kindFlagged      // likewise: a call with its attempt and flags behind it
	kindMemberOp     // an operation in a member, which is named behind it
	kindMemberObject // likewise: an object of a lifecycle, which may have no name, and its member
	kindNumbered     // a flagged call with its number behind, as the difference to the block's last one
	kindLeftOut      // a call that was not sent: operation and number
	kindAccess       // what a call, a list or a watch of a probe step said of one object
	kindConnectedOp  // an operation with its member, which may be empty, and its kind of connections behind it
	kindClientsOp    // likewise, with its population of clients behind it
	kindThrottled    // a flagged call with its time in a rate limiter behind it
)

// The flags of a call.
const (
	flagAgain byte = 1 << iota
	flagReached
	flagMore
)

func flagBit(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// Writer appends records to a stream and flushes them at least every half
// second. All methods may be called from many goroutines. A failed write (a
// full disk) stops the stream where its last whole block ends; Failed says so.
type Writer struct {
	mu     sync.Mutex
	file   *os.File
	folder *os.File // that the file is in
	size   int64    // bytes of whole blocks in the file
	buf    []byte
	last   clock.Time
	number int64 // of the block's last numbered call
	err    error
	closed bool
	ops    map[Op]OpID
	series map[string]SeriesID
	nextID ObjectID

	nextSeries SeriesID
	texts      map[string]uint64
	refs       []uint64 // reused
	families   map[string]struct{}
	wholes     []int64 // by SeriesID: the last whole number in a Scrape
	histograms map[SeriesID]*Histogram

	clock   clock.Clock
	stalled time.Duration // that the disk took, each time longer than stall

	failed chan struct{}
	stop   chan struct{}
	done   chan struct{}
}

// errBlock says that something is too large to be read again.
var errBlock = errors.New("one record is larger than a reader takes, 64 MiB")

// Create makes the stream's file, which must not exist, with mode 0600.
func Create(path string) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create record stream: %w", err)
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create record stream: %w", err), file.Close())
	}
	if _, err := file.WriteString(streamHeader); err != nil {
		return nil, errors.Join(fmt.Errorf("write record stream: %w", err), file.Close(), folder.Close())
	}
	w := &Writer{
		file: file, folder: folder, size: int64(len(streamHeader)),
		ops: map[Op]OpID{}, series: map[string]SeriesID{},
		texts: map[string]uint64{}, families: map[string]struct{}{}, histograms: map[SeriesID]*Histogram{},
		clock:  clock.Start(),
		failed: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	w.resetBlock()
	go w.flushLoop()
	return w, nil
}

func (w *Writer) flushLoop() {
	defer close(w.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.mu.Lock()
			w.flushLocked()
			w.mu.Unlock()
		case <-w.stop:
			return
		}
	}
}

// Failed is closed when the stream could not be written any further; Err then
// says why.
func (w *Writer) Failed() <-chan struct{} { return w.failed }

// Err returns the first error of writing, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Stalled returns how long the disk has kept callers waiting until now: what they
// were late by may be its doing. Writing that takes a few milliseconds is not counted.
func (w *Writer) Stalled() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stalled
}

// Close flushes and closes the file, and returns when all of it is on the disk. It
// is idempotent and returns the first error of writing.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.closed {
		defer w.mu.Unlock()
		return w.err
	}
	w.closed = true
	w.flushLocked()
	w.mu.Unlock()
	close(w.stop)
	<-w.done
	if err := errors.Join(w.file.Sync(), w.file.Close(), syncFolder(w.folder), w.folder.Close()); err != nil {
		w.mu.Lock()
		w.failLocked(err)
		w.mu.Unlock()
	}
	return w.Err()
}

const blockHead = 8

func (w *Writer) resetBlock() {
	w.buf = append(w.buf[:0], make([]byte, blockHead)...)
	w.last, w.number = 0, 0
}

// flushLocked writes the pending block; callers hold mu.
func (w *Writer) flushLocked() {
	if len(w.buf) == blockHead || w.err != nil {
		w.resetBlock()
		return
	}
	payload := w.buf[blockHead:]
	if len(payload) > maxBlock {
		w.failLocked(errBlock)
		w.resetBlock()
		return
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(len(payload)))
	binary.LittleEndian.PutUint32(w.buf[4:], crc32.Checksum(payload, crcTable))
	begun := w.clock.Now()
	_, err := w.file.Write(w.buf)
	if took := w.clock.Now().Sub(begun); took > stall {
		w.stalled += took
	}
	if err != nil {
		// What was written of this block is damage: take it away again, so
		// that the file ends with a whole block.
		_ = w.file.Truncate(w.size)
		w.failLocked(err)
	} else {
		w.size += int64(len(w.buf))
	}
	w.resetBlock()
}

func (w *Writer) failLocked(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("write record stream: %w", err)
		close(w.failed)
	}
}

func (w *Writer) flushIfFullLocked() {
	if len(w.buf) >= flushBytes {
		w.flushLocked()
	}
}

func (w *Writer) uint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }
func (w *Writer) int(v int64)   { w.buf = binary.AppendVarint(w.buf, v) }
func (w *Writer) string(s string) {
	w.uint(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

// writeTime writes a time as the difference to the last one of the block.
func (w *Writer) writeTime(t clock.Time) {
	w.int(int64(t - w.last))
	w.last = t
}

// Op returns the number of an operation, defining it on first use.
func (w *Writer) Op(op Op) OpID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, ok := w.ops[op]; ok {
		return id
	}
	id := OpID(len(w.ops))
	w.ops[op] = id
	kind, texts := kindOp, []string{op.Source, op.Step, op.Verb, op.Resource, op.Subresource, op.Scope}
	switch {
	case op.Clients != "":
		kind, texts = kindClientsOp, append(texts, op.Cluster, op.Connection, op.Clients)
	case op.Connection != "":
		kind, texts = kindConnectedOp, append(texts, op.Cluster, op.Connection)
	case op.Cluster != "":
		kind, texts = kindMemberOp, append(texts, op.Cluster)
	}
	w.buf = append(w.buf, kind)
	for _, s := range texts {
		w.string(s)
	}
	return id
}

// Object defines an object and returns its number. Every call defines a new one.
func (w *Writer) Object(o Object) ObjectID {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.nextID
	w.nextID++
	kind := kindObject
	switch {
	case o.Cluster != "":
		kind = kindMemberObject
	case o.Lifecycle != "":
		kind = kindLifecycle
	}
	w.buf = append(w.buf, kind)
	for _, s := range []string{o.Resource, o.Namespace, o.Name, o.UID, o.Group} {
		w.string(s)
	}
	if kind != kindObject {
		w.string(o.Lifecycle)
	}
	if kind == kindMemberObject {
		w.string(o.Cluster)
	}
	w.flushIfFullLocked()
	return id
}

// Series returns the number of a series, defining it on first use. Labels
// must be sorted by name.
func (w *Writer) Series(s Series) SeriesID {
	key := s.Key()
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, ok := w.series[key]; ok {
		return id
	}
	id := w.defineSeriesLocked(s)
	w.series[key] = id
	return id
}

// Call appends a call.
func (w *Writer) Call(c Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := kindCall
	switch {
	case c.Number > 0:
		kind = kindNumbered
	case c.Throttled > 0:
		kind = kindThrottled
	case c.Again || c.Reached:
		kind = kindFlagged
	case c.Attempt > 0:
		kind = kindRetry
	}
	w.buf = append(w.buf, kind)
	w.uint(uint64(c.Op))
	w.writeTime(c.Due)
	w.int(int64(c.Sent - c.Due))
	w.int(int64(c.Done - c.Sent))
	w.uint(uint64(c.Code)<<2 | uint64(c.Outcome))
	w.uint(uint64(c.RetryAfter / time.Second))
	w.uint(uint64(c.SentBytes))
	w.uint(uint64(c.ReceivedBytes))
	if kind != kindCall {
		w.buf = append(w.buf, c.Attempt)
	}
	if kind == kindFlagged || kind == kindNumbered || kind == kindThrottled {
		w.buf = append(w.buf, flagBit(c.Again, flagAgain)|flagBit(c.Reached, flagReached)|flagBit(c.More, flagMore))
	}
	switch kind {
	case kindNumbered:
		w.writeNumber(c.Number)
	case kindThrottled:
		w.int(int64(c.Throttled))
	}
	w.flushIfFullLocked()
}

// LeftOut appends that a call was not sent.
func (w *Writer) LeftOut(l LeftOut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, kindLeftOut)
	w.uint(uint64(l.Op))
	w.writeNumber(l.Number)
	w.flushIfFullLocked()
}

// writeNumber writes a number as the difference to the last one of the block.
func (w *Writer) writeNumber(n uint32) {
	w.int(int64(n) - w.number)
	w.number = int64(n)
}

// Flush writes what is pending to the file, so that a reader of it has all until now.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushLocked()
}

// Phase appends a phase of an object's life.
func (w *Writer) Phase(p Phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := kindPhase
	if p.Within != 0 {
		kind = kindPhaseWithin
	}
	w.buf = append(w.buf, kind)
	w.uint(uint64(p.Object))
	w.string(p.Phase)
	w.writeTime(p.At)
	if p.Within != 0 {
		w.uint(uint64(p.Within))
	}
	w.flushIfFullLocked()
}

// Sample appends a value of a series.
func (w *Writer) Sample(s Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole := isWhole(s.Value)
	if whole {
		w.buf = append(w.buf, kindSampleInt)
	} else {
		w.buf = append(w.buf, kindSampleFloat)
	}
	w.uint(uint64(s.Series))
	w.writeTime(s.At)
	if whole {
		w.int(int64(s.Value))
	} else {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, math.Float64bits(s.Value))
	}
	w.flushIfFullLocked()
}

// Event appends an event and flushes, since events are what a reader of a broken
// run looks for first. A rate that is no finite number is left out, and of a text
// what is beyond maxText bytes.
func (w *Writer) Event(e Event) {
	if over := len(e.Text) - maxText; over > 0 {
		e.Text = fmt.Sprintf("%s ... (%s more)", strings.ToValidUTF8(e.Text[:maxText], ""), unit.Count(over, "bytes"))
	}
	if math.IsInf(e.Rate, 0) || math.IsNaN(e.Rate) {
		e.Rate = 0
	}
	detail := e.encodeJSON()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, kindEvent)
	w.writeTime(e.At)
	w.string(string(e.Type))
	w.string(e.Name)
	w.string(e.Text)
	w.string(detail)
	if e.Type != EventScraped {
		w.flushLocked()
	}
}

// Key returns the series in Prometheus' notation, with its target as the label
// "target": apiserver_request_total{target="kube-apiserver",code="200"}.
func (s Series) Key() string {
	b := make([]byte, 0, 64)
	b = append(b, s.Name...)
	b = append(b, `{target="`...)
	b = append(b, s.Target...)
	b = append(b, '"')
	for _, l := range s.Labels {
		b = append(b, ',')
		b = append(b, l.Name...)
		b = append(b, '=')
		b = appendQuoted(b, l.Value)
	}
	return string(append(b, '}'))
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '\\', '"':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

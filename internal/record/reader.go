package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// NoStream tells whether an error of reading a stream says that there is none: no file,
// or one that its writer has not begun.
func NoStream(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotRecords)
}

// ErrNotRecords says that a file does not begin as a record stream does.
var ErrNotRecords = errors.New("not a windtunnel record stream that this version can read")

// Visitor is called for each record in the order in which it was written.
// A nil function skips its kind.
type Visitor struct {
	Call      func(Call)
	Phase     func(Phase)
	Sample    func(Sample) // also each value of a scrape
	Event     func(Event)
	Scrape    func(Scrape) // before its values; its slices are empty
	Histogram func(HistogramSample)
	Gone      func(Gone)
	LeftOut   func(LeftOut)
	Access    func(Access)
}

// Stream is what has been read of a stream so far: the definitions that
// records refer to, and whether its end was cut off.
type Stream struct {
	Ops      []Op
	Objects  []Object
	Series   []Series
	Families []Family
	// CutOff is set when the file does not end with a whole block, as after a
	// crash; LostBytes is what could not be read.
	CutOff    bool
	LostBytes int64
	Format    int // of the stream: 1 or 2
	// UnknownEvents counts the events, by type, that a later version wrote and
	// this one does not know; they are not visited.
	UnknownEvents map[EventType]int

	texts      []string
	wholes     []int64 // by SeriesID: the last whole number in a Scrape
	histograms map[SeriesID]*Histogram

	spans *[]span // of the texts of the block that is read; nil: nobody asks

	earned, spent int64 // bytes of memory that its definitions may take, and take
	refused       error
}

// Read visits every record of the stream at path. A tail that a crash cut off
// is not an error: Stream.CutOff tells. Definitions are complete up to the record
// that is being visited.
func Read(path string, visit func(*Stream) Visitor) (*Stream, error) {
	dir, name := SplitFile(path)
	return dir.ReadStream(name, visit)
}

// ReadStream is Read of a file of the folder, which may be in a folder below.
func (d Dir) ReadStream(name string, visit func(*Stream) Visitor) (*Stream, error) {
	path := d.File(name)
	file, err := d.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open record stream: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("open record stream: %w", err)
	}
	in := bufio.NewReaderSize(file, 1<<20)
	s := &Stream{}
	if s.Format, err = readHeader(in, path); err != nil {
		return nil, err
	}
	v := visit(s)
	if err := s.eachBlock(in, info.Size(), func(block []byte) error { return s.decodeBlock(block, v) }); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// readHeader returns the format of the stream.
func readHeader(in io.Reader, path string) (int, error) {
	head := make([]byte, len(streamHeader))
	if _, err := io.ReadFull(in, head); err != nil || !strings.HasPrefix(string(head), streamTitle) {
		return 0, fmt.Errorf("%s: %w", path, ErrNotRecords)
	}
	switch format := head[len(streamTitle)] - '0'; format {
	case 1, Format:
		return int(format), nil
	default:
		return 0, fmt.Errorf("%s: %w: it is of format %c, this version reads formats 1 to %d", path, ErrNotRecords, head[len(streamTitle)], Format)
	}
}

var errTorn = errors.New("block cut off")

// nextBlock returns the next whole block's payload in buf or a larger buffer. left
// is how many bytes there are: no memory is taken for what is said to be more.
func nextBlock(in io.Reader, buf []byte, left int64) ([]byte, error) {
	var head [blockHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errTorn
		}
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > maxBlock || int64(n) > left-blockHead {
		return nil, errTorn
	}
	if cap(buf) < int(n) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(in, buf); err != nil {
		return nil, errTorn
	}
	if crc32.Checksum(buf, crcTable) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return buf, nil
}

// cursor reads one block; the first fault sticks.
type cursor struct {
	b    []byte
	last clock.Time
	mark int64 // the block's last number of a call
	size int   // of the block
	read *[]span
	bad  error
}

// failWith ends the reading with a reason of its own.
func (c *cursor) failWith(why error) {
	if c.bad == nil {
		c.bad = why
	}
	c.b = nil
}

func (c *cursor) failDamaged(what string) { c.failWith(fmt.Errorf("damaged record: %s", what)) }

func (c *cursor) byte() byte {
	if len(c.b) == 0 {
		c.failDamaged("no kind")
		return 0
	}
	b := c.b[0]
	c.b = c.b[1:]
	return b
}

func (c *cursor) uint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.failDamaged("number")
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) int() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.failDamaged("number")
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) string() string {
	from := c.size - len(c.b)
	n := c.uint()
	if n > uint64(len(c.b)) {
		c.failDamaged("text")
		return ""
	}
	s := string(c.b[:n])
	c.b = c.b[n:]
	if c.read != nil {
		*c.read = append(*c.read, span{from, c.size - len(c.b), s})
	}
	return s
}

// readTime reads a time as the difference to the last one of the block.
func (c *cursor) readTime() clock.Time {
	c.last = c.readTimeAfter(c.last)
	return c.last
}

// readTimeAfter reads a time as the difference to another.
func (c *cursor) readTimeAfter(t clock.Time) clock.Time {
	step := c.int()
	if step < -2*int64(maxTime) || step > 2*int64(maxTime) { // both may be at an end
		c.failWith(errTime)
		return t
	}
	if t += clock.Time(step); t < -maxTime || t > maxTime {
		c.failWith(errTime)
		return 0
	}
	return t
}

// readDuration reads a time that something took.
func (c *cursor) readDuration() time.Duration {
	v := c.int()
	if v < -2*int64(maxTime) || v > 2*int64(maxTime) {
		c.failWith(errTime)
		return 0
	}
	return time.Duration(v)
}

// readCallNumber reads the number of a call as the difference to the block's last one.
func (c *cursor) readCallNumber() uint32 {
	step := c.int()
	if step < -math.MaxUint32 || step > math.MaxUint32 || c.mark+step < 1 || c.mark+step > math.MaxUint32 {
		c.failDamaged("number of a call")
		return 0
	}
	c.mark += step
	return uint32(c.mark)
}

func (c *cursor) float() float64 {
	if len(c.b) < 8 {
		c.failDamaged("value")
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(c.b))
	c.b = c.b[8:]
	return v
}

func (s *Stream) decodeBlock(block []byte, v Visitor) error {
	c := &cursor{b: block, size: len(block), read: s.spans}
	s.earnBudget(len(block))
	for len(c.b) > 0 && c.bad == nil {
		switch kind := c.byte(); kind {
		case kindOp:
			s.Spend(costOp)
			s.Ops = append(s.Ops, c.readOp())
		case kindMemberOp, kindConnectedOp, kindClientsOp:
			op := c.readOp()
			if op.Cluster = c.string(); kind != kindMemberOp {
				op.Connection = c.string()
			}
			if kind == kindClientsOp {
				op.Clients = c.string()
			}
			s.Spend(costOp)
			s.Ops = append(s.Ops, op)
		case kindObject, kindLifecycle, kindMemberObject:
			o := c.readObject()
			if kind != kindObject {
				o.Lifecycle = c.string()
			}
			if kind == kindMemberObject {
				o.Cluster = c.string()
			}
			s.Spend(costObject)
			s.Objects = append(s.Objects, o)
		case kindSeries:
			s.defineSeries(c, c.readSeries())
		case kindCall, kindRetry, kindFlagged, kindNumbered, kindThrottled:
			s.visitCall(c, kind, v)
		case kindLeftOut:
			l := LeftOut{Op: OpID(c.uint()), Number: c.readCallNumber()}
			if int(l.Op) >= len(s.Ops) {
				c.failDamaged("a call left out of an undefined operation")
			}
			if c.bad == nil && v.LeftOut != nil {
				v.LeftOut(l)
			}
		case kindAccess:
			s.visitAccess(c, v)
		case kindPhase, kindPhaseWithin:
			s.visitPhase(c, kind, v)
		case kindSampleInt, kindSampleFloat:
			s.visitSample(c, kind, v)
		case kindText:
			s.Spend(costText)
			s.texts = append(s.texts, c.string())
		case kindSeriesRef:
			s.defineSeries(c, c.seriesRef(s))
		case kindFamily:
			s.Spend(costFamily)
			s.Families = append(s.Families, Family{c.string(), c.string(), c.string()})
		case kindScrape:
			s.visitScrape(c, v)
		case kindMark:
			s.visitEvent(c, eventOfMark(c.readTime(), c.string(), c.string(), c.string()), v)
		case kindEvent:
			e := Event{At: c.readTime(), Type: EventType(c.string()), Name: c.string(), Text: c.string()}
			var err error
			if e.Detail, err = decodeDetail(c.string()); err != nil {
				c.failDamaged("detail of an event")
			}
			if e.Type == EventDied && e.MemoryLimit == "" {
				e.MemoryLimit = parseDeath(e.Text)
			}
			s.visitEvent(c, e, v)
		default:
			c.failDamaged(fmt.Sprintf("kind %d", kind))
		}
		if s.refused != nil {
			c.failWith(s.refused)
		}
	}
	return c.bad
}

// visitEvent counts events of types that this version does not know, and visits
// the others.
func (s *Stream) visitEvent(c *cursor, e Event, v Visitor) {
	s.Spend(costEvent)
	if e.For < -time.Duration(maxTime) || e.For > time.Duration(maxTime) {
		c.failWith(errTime)
	}
	switch {
	case c.bad != nil:
	case !slices.Contains(eventTypes(), e.Type):
		if s.UnknownEvents == nil {
			s.UnknownEvents = map[EventType]int{}
		}
		s.UnknownEvents[e.Type]++
	case v.Event != nil:
		v.Event(e)
	}
}

func (c *cursor) readSeries() Series {
	out := Series{Target: c.string(), Name: c.string()}
	n := c.uint()
	if n > uint64(len(c.b)/2) { // each label takes two bytes at least
		c.failDamaged("labels")
	}
	for i := uint64(0); i < n && c.bad == nil; i++ {
		out.Labels = append(out.Labels, Label{c.string(), c.string()})
	}
	return out
}

func (s *Stream) visitCall(c *cursor, kind byte, v Visitor) {
	call := Call{Op: OpID(c.uint()), Due: c.readTime()}
	call.Sent = c.readTimeAfter(call.Due)
	call.Done = c.readTimeAfter(call.Sent)
	code := c.uint()
	call.Code, call.Outcome = uint16(code>>2), Outcome(code&3)
	call.RetryAfter = time.Duration(min(c.uint(), uint64(maxTime/clock.Time(time.Second)))) * time.Second
	call.SentBytes, call.ReceivedBytes = uint32(c.uint()), uint32(c.uint())
	if kind != kindCall {
		call.Attempt = c.byte()
	}
	if kind == kindFlagged || kind == kindNumbered || kind == kindThrottled {
		flags := c.byte()
		call.Again, call.Reached, call.More = flags&flagAgain != 0, flags&flagReached != 0, flags&flagMore != 0
	}
	switch kind {
	case kindNumbered:
		call.Number = c.readCallNumber()
	case kindThrottled:
		if call.Throttled = time.Duration(c.int()); call.Throttled < 0 || call.Throttled > time.Duration(maxTime) {
			c.failWith(errTime)
		}
	}
	if int(call.Op) >= len(s.Ops) || call.Outcome > Unknown {
		c.failDamaged("call of an undefined operation or outcome")
	}
	if c.bad == nil && v.Call != nil {
		v.Call(call)
	}
}

func (c *cursor) readOp() Op {
	return Op{Source: c.string(), Step: c.string(), Verb: c.string(), Resource: c.string(), Subresource: c.string(), Scope: c.string()}
}

func (c *cursor) readObject() Object {
	return Object{Resource: c.string(), Namespace: c.string(), Name: c.string(), UID: c.string(), Group: c.string()}
}

func (s *Stream) visitPhase(c *cursor, kind byte, v Visitor) {
	p := Phase{Object: ObjectID(c.uint()), Phase: c.string(), At: c.readTime()}
	if kind == kindPhaseWithin {
		p.Within = time.Duration(min(c.uint(), uint64(Ever)))
		if p.Within != Ever && p.Within > time.Duration(maxTime) {
			c.failWith(errTime)
		}
	}
	if uint64(p.Object) >= uint64(len(s.Objects)) {
		c.failDamaged("phase of an undefined object")
	}
	if c.bad == nil && v.Phase != nil {
		v.Phase(p)
	}
}

func (s *Stream) visitSample(c *cursor, kind byte, v Visitor) {
	sample := Sample{Series: SeriesID(c.uint()), At: c.readTime()}
	if kind == kindSampleInt {
		sample.Value = float64(c.int())
	} else {
		sample.Value = c.float()
	}
	if int(sample.Series) >= len(s.Series) {
		c.failDamaged("sample of an undefined series")
	}
	if c.bad == nil && v.Sample != nil {
		v.Sample(sample)
	}
}

// WholeBlocks returns how many of a stream's bytes are whole blocks whose checksums
// hold; with head they begin with the stream's own head. The rest may be a block that is
// not whole yet. An error says that what there is cannot be the begin of one.
func WholeBlocks(b []byte, head bool) (n int, err error) {
	if head {
		if len(b) < len(streamHeader) || string(b[:len(streamHeader)]) != streamHeader {
			return 0, ErrNotRecords
		}
		n = len(streamHeader)
	}
	for len(b)-n >= blockHead {
		length := binary.LittleEndian.Uint32(b[n:])
		if length == 0 || length > maxBlock {
			return n, fmt.Errorf("%w: a block of %d bytes", errTorn, length)
		}
		payload := b[n+blockHead:]
		if uint32(len(payload)) < length {
			return n, nil
		}
		if payload = payload[:length]; crc32.Checksum(payload, crcTable) != binary.LittleEndian.Uint32(b[n+4:]) {
			return n, fmt.Errorf("%w: its checksum is another", errTorn)
		}
		n += blockHead + int(length)
	}
	return n, nil
}

package series

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/windtunnel/windtunnel/internal/record"
)

// protoState is what a tracker knows of a target that answers in protobuf.
type protoState struct {
	all    []*protoFamily // ever seen
	order  []*protoFamily // of the last exposition
	spare  []*protoFamily
	byName map[string]*protoFamily
}

// protoFamily is a metric family and its metrics.
type protoFamily struct {
	record.Family
	names    [4]string // of parts
	accepted [4]bool
	raw      []byte // its message in the last exposition
	all      []*protoMetric
	order    []*protoMetric // of the last exposition
	spare    []*protoMetric
	byLabels map[string]*protoMetric
	seen     uint32 // in which reading
	read     uint32 // in which reading its message was another than before
	settled  bool   // what was read then has been told
	points   int    // of the last exposition
}

// protoMetric is one metric: one point, or those of a histogram or a summary.
type protoMetric struct {
	labels   []record.Label
	from, to int    // its message in the family's
	at       int    // its place among the family's metrics
	seen     uint32 // in which reading that looked at the family's message
	live     bool   // in the last exposition
	slots    []slot
	native   int // index, -1 where it never had a native histogram
	hist     *record.Histogram
}

func newProtoState() protoState { return protoState{byName: map[string]*protoFamily{}} }

func errProto(what string) error { return fmt.Errorf("parse metrics: protobuf: %s is damaged", what) }

// The fields of MetricFamily.
const (
	familyName, familyHelp, familyType, familyMetric = 1, 2, 3, 4
)

func (t *Tracker) updateProto(body []byte, d *Delta) error {
	s := &t.proto
	next := s.spare[:0]
	at := 0
	for len(body) > 0 {
		raw, n := protowire.ConsumeBytes(body)
		if n < 0 {
			return errProto("a length")
		}
		body = body[n:]
		var f *protoFamily
		if at < len(s.order) && !t.resend && bytes.Equal(raw, s.order[at].raw) {
			f = s.order[at]
			at++
		} else {
			var err error
			if f, err = t.findFamily(raw); err != nil {
				return err
			}
			if err := t.readMetrics(f, raw, d); err != nil {
				return fmt.Errorf("%w: %s", err, f.Name)
			}
			if i := slices.Index(s.order, f); i >= 0 {
				at = i + 1
			}
		}
		f.raw, f.seen = raw, t.now
		next = append(next, f)
	}
	s.order, s.spare = next, s.order
	for _, f := range s.all {
		f.reportGone(t.now, d)
	}
	return nil
}

// reportGone tells which points are no longer there; it is called when a whole
// exposition has been read.
func (f *protoFamily) reportGone(now uint32, d *Delta) {
	if f.seen != now {
		f.raw, f.order, f.settled = nil, f.order[:0], false
	}
	if !f.settled {
		f.settled, f.points = f.seen == now, 0
		for _, m := range f.all {
			live := f.seen == now && m.seen == f.read
			if live {
				f.points += m.countPoints()
			} else if m.live {
				m.reportGone(d)
			}
			m.live = live
		}
	}
	d.Points += f.points
}

// findFamily finds the family of a message by its name.
func (t *Tracker) findFamily(raw []byte) (*protoFamily, error) {
	var name, help []byte
	var kind uint64
	ok := forEachField(raw, func(f field) bool {
		switch f.num {
		case familyName:
			name = f.b
		case familyHelp:
			help = f.b
		case familyType:
			kind = f.v
		}
		return f.num != familyMetric
	})
	if !ok || len(name) == 0 {
		return nil, errProto("a family")
	}
	if f, known := t.proto.byName[string(name)]; known {
		return f, nil
	}
	f := &protoFamily{Family: record.Family{Name: string(name), Help: string(help)}, byLabels: map[string]*protoMetric{}}
	if kinds := []string{"counter", "gauge", "summary", "", "histogram", "histogram"}; kind < uint64(len(kinds)) {
		f.Type = kinds[kind]
	}
	for i, part := range pointNames(f.Name) {
		f.names[i], f.accepted[i] = part, t.accept(part)
	}
	if f.accepted != [4]bool{} {
		t.meta = append(t.meta, f.Family)
	}
	t.proto.byName[f.Name] = f
	t.proto.all = append(t.proto.all, f)
	return f, nil
}

// readMetrics reads the metrics of a family whose message is not as it was before.
func (t *Tracker) readMetrics(f *protoFamily, raw []byte, d *Delta) error {
	if f.accepted == [4]bool{} {
		return nil
	}
	old, next, at := f.order, f.spare[:0], 0
	var fault error
	ok := forEachField(raw, func(one field) bool {
		if one.num != familyMetric {
			return true
		}
		var m *protoMetric
		if at < len(old) && !t.resend && bytes.Equal(one.b, f.raw[old[at].from:old[at].to]) {
			m = old[at]
		} else if m, fault = t.readMetric(f, one.b, d); fault != nil {
			return false
		}
		if m.live {
			at = m.at + 1
		}
		m.from, m.to, m.seen, m.at = one.end-len(one.b), one.end, t.now, len(next)
		next = append(next, m)
		return true
	})
	if !ok && fault == nil {
		fault = errProto("a family")
	}
	if fault != nil {
		return fault
	}
	f.order, f.spare, f.read, f.settled = next, old, t.now, false
	return nil
}

// field is one field of a message: v of a varint or of a fixed number's bits, b
// of a message, a text or a packed list. It ends at byte end.
type field struct {
	num protowire.Number
	b   []byte
	v   uint64
	end int
}

func (f field) asFloat() float64 { return math.Float64frombits(f.v) }

// asSigned is the value of an sint32 or sint64.
func (f field) asSigned() int64 { return protowire.DecodeZigZag(f.v) }

// forEachField calls visit for each field of a message until it returns false; the
// result is false where the message is damaged.
func forEachField(message []byte, visit func(field) bool) bool {
	for b := message; len(b) > 0; {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		f := field{num: num}
		switch kind {
		case protowire.VarintType:
			f.v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.v, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			f.b, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return false
		}
		b = b[n:]
		f.end = len(message) - len(b)
		if !visit(f) {
			return true
		}
	}
	return true
}

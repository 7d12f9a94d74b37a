package record_test

import (
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// The page on the stream is tested by reading a stream with nothing but the
// page's own table of kinds and fields.

const page = "../../docs/reference/records.md"

func readPage(t *testing.T) string {
	t.Helper()
	raw := repotest.Must(os.ReadFile(page))(t)
	return string(raw)
}

// layouts are the fields of each kind, as the page says.
func layouts(t *testing.T) map[byte]string {
	t.Helper()
	out := map[byte]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| [^|]+ \| ([^|]+) \|$`).FindAllStringSubmatch(readPage(t), -1) {
		kind := repotest.Must(strconv.Atoi(row[1]))(t)
		out[byte(kind)] = row[2]
	}
	return out
}

func TestPageNamesEveryKind(t *testing.T) {
	kinds := constants(t, "writer.go", "kind")
	if got := layouts(t); len(got) != len(kinds) || len(kinds) < 13 {
		t.Errorf("%s has %d kinds, the code %d", page, len(got), len(kinds))
	}
	text := readPage(t)
	for _, fact := range []string{
		"`" + strings.TrimSuffix(record.StreamHeader, "\n") + "`",
		fmt.Sprintf("%d bytes", record.FlushBytes), fmt.Sprintf("%d ms", record.FlushEvery.Milliseconds()),
	} {
		if !strings.Contains(text, fact) {
			t.Errorf("%s does not say %q", page, fact)
		}
	}
	for _, kind := range constants(t, "event.go", "Event") {
		if !strings.Contains(text, "`"+kind+"`") {
			t.Errorf("%s does not name the event %q", page, kind)
		}
	}
}

// constants returns the values of a file's constants whose names begin with
// prefix; those without a text have an empty one.
func constants(t *testing.T, name, prefix string) (out []string) {
	t.Helper()
	file := repotest.Must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if !strings.HasPrefix(v.Names[0].Name, prefix) {
				continue
			}
			text := ""
			if len(v.Values) == 1 {
				if lit, ok := v.Values[0].(*ast.BasicLit); ok {
					text, _ = strconv.Unquote(lit.Value)
				}
			}
			out = append(out, text)
		}
	}
	return out
}

// TestPageReadsAStream reads calls, phases, samples and events by the page.
func TestPageReadsAStream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	want := write(t, path, 50)
	raw := repotest.Must(os.ReadFile(path))(t)
	r := &byPage{t: t, layouts: layouts(t)}
	for b := raw[len(record.StreamHeader):]; len(b) > 0; {
		n := binary.LittleEndian.Uint32(b)
		r.block(b[8 : 8+n])
		b = b[8+n:]
	}
	var got collected
	for _, v := range r.read {
		switch v.kind {
		case 4, 9, 17:
			attempt, _ := v.fields["attempt"].(byte)
			flags, _ := v.fields["flags"].(byte)
			status := v.fields["status"].(uint64)
			due := v.fields["due"].(int64)
			sent := due + v.fields["wait"].(int64)
			got.calls = append(got.calls, record.Call{
				Op: record.OpID(v.fields["op"].(uint64)), Due: at(due), Sent: at(sent), Done: at(sent + v.fields["service"].(int64)),
				Code: uint16(status / 4), Outcome: record.Outcome(status % 4), Attempt: attempt, Again: flags&1 != 0, Reached: flags&2 != 0, RetryAfter: seconds(v.fields["retry_after"].(uint64)),
				SentBytes: uint32(v.fields["sent"].(uint64)), ReceivedBytes: uint32(v.fields["received"].(uint64)),
			})
		case 5, 15:
			within, _ := v.fields["within"].(uint64)
			got.phases = append(got.phases, record.Phase{Object: record.ObjectID(v.fields["object"].(uint64)), Phase: v.fields["phase"].(string),
				At: at(v.fields["at"].(int64)), Within: time.Duration(within)})
		case 6:
			got.samples = append(got.samples, record.Sample{Series: record.SeriesID(v.fields["series"].(uint64)), At: at(v.fields["at"].(int64)), Value: float64(v.fields["value"].(int64))})
		case 7:
			got.samples = append(got.samples, record.Sample{Series: record.SeriesID(v.fields["series"].(uint64)), At: at(v.fields["at"].(int64)), Value: v.fields["value"].(float64)})
		case 16:
			got.events = append(got.events, record.Event{At: at(v.fields["at"].(int64)), Type: record.EventType(v.fields["type"].(string)), Name: v.fields["name"].(string), Text: v.fields["text"].(string)})
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read by %s: %d calls, %d phases, %d samples, %d events; they are not what was written", page, len(got.calls), len(got.phases), len(got.samples), len(got.events))
	}
}

// byPage reads blocks by the page's layouts.
type byPage struct {
	t       *testing.T
	layouts map[byte]string
	b       []byte
	last    int64
	read    []laidOut
}

// laidOut is one record with its fields by name.
type laidOut struct {
	kind   byte
	fields map[string]any
}

func (r *byPage) block(b []byte) {
	r.b, r.last = b, 0
	for len(r.b) > 0 {
		one := laidOut{kind: r.b[0], fields: map[string]any{}}
		r.b = r.b[1:]
		layout, ok := r.layouts[one.kind]
		if !ok {
			r.t.Fatalf("kind %d is not on the page", one.kind)
		}
		r.fields(layout, one.fields)
		r.read = append(r.read, one)
	}
}

func (r *byPage) fields(layout string, into map[string]any) {
	before, rest, repeats := strings.Cut(layout, " n*(")
	for f := range strings.FieldsSeq(before) {
		name, letter, ok := strings.Cut(f, ":")
		if !ok {
			r.t.Fatalf("%q is not NAME:LETTER", f)
		}
		into[name] = r.field(letter)
	}
	if inner, _, ok := strings.Cut(rest, ")"); repeats && ok {
		for range into["n"].(uint64) {
			r.fields(inner, map[string]any{})
		}
	}
}

func (r *byPage) field(letter string) any {
	take := func(n int) []byte {
		if n < 0 || n > len(r.b) {
			r.t.Fatalf("a field %s reaches beyond its block", letter)
		}
		out := r.b[:n]
		r.b = r.b[n:]
		return out
	}
	switch letter {
	case "u":
		v, n := binary.Uvarint(r.b)
		take(n)
		return v
	case "i":
		v, n := binary.Varint(r.b)
		take(n)
		return v
	case "t":
		v, n := binary.Varint(r.b)
		take(n)
		r.last += v
		return r.last
	case "s":
		v, n := binary.Uvarint(r.b)
		take(n)
		return string(take(int(v)))
	case "f":
		return math.Float64frombits(binary.LittleEndian.Uint64(take(8)))
	case "b":
		return take(1)[0]
	}
	r.t.Fatalf("no field is a %q", letter)
	return nil
}

func at(ns int64) clock.Time { return clock.Time(ns) }

func seconds(n uint64) time.Duration { return time.Duration(n) * time.Second }

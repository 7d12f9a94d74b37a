package leader

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
)

// TestOutcomesOfAPart tells four workers' ends of ten calls: one has sent its share, one has
// failed, one was lost, and of one nothing can be read.
func TestOutcomesOfAPart(t *testing.T) {
	failed := errors.New("no room")
	got := readOutcomes(steps.Part{Step: "fill"}, 7, 10, []protocol.Outcome{
		{Ended: json.RawMessage(`{"seen":{"fill":null}}`)},
		{Err: failed, Ended: json.RawMessage(`{"seen":{}}`)},
		{Err: fmt.Errorf("killed: %w", protocol.ErrLost)},
		{Ended: json.RawMessage("nonsense")},
	})
	type told struct {
		worker, calls int
		text          string
	}
	var events []told
	for _, e := range got.events {
		if e.Type != record.EventWorkerShare || e.At != 7 || e.Name != "fill" {
			t.Errorf("%+v", e)
		}
		events = append(events, told{e.Detail.Worker, e.Detail.Count, e.Text})
	}
	want := []told{{0, 3, ""}, {1, 3, "no room"}, {2, 2, got.events[2].Text}, {3, 2, ""}}
	if !slices.Equal(events, want) || got.events[2].Text == "" {
		t.Errorf("events %v, want %v", events, want)
	}
	if !slices.Equal(got.lost, []int{2}) || len(got.seen) != 2 {
		t.Errorf("lost %v, seen %v", got.lost, got.seen)
	}
	if !errors.Is(got.err, failed) || errors.Is(got.err, protocol.ErrLost) {
		t.Errorf("error %v", got.err)
	}
}

// TestMembersOfAWorker holds what a worker has of a group of three, the first of which is
// number 4 of the run, against its share: one of two.
func TestMembersOfAWorker(t *testing.T) {
	for _, tt := range []struct {
		name string
		has  map[string]string
		mine []int
		ok   bool
	}{
		{"its own", map[string]string{"a": "x:1", "c": "x:2"}, []int{0, 2}, true},
		{"one is missing", map[string]string{"a": "x:1"}, nil, false},
		{"one of others", map[string]string{"a": "x:1", "b": "x:3", "c": "x:2"}, nil, false},
		{"another in place of one", map[string]string{"a": "x:1", "b": "x:3"}, nil, false},
	} {
		mine, err := checkMembers([]string{"a", "b", "c"}, 4, share.Share{Index: 0, Of: 2}, tt.has)
		if !reflect.DeepEqual(mine, tt.mine) || (err == nil) != tt.ok || err != nil && !errors.Is(err, message.ErrWorkers) {
			t.Errorf("%s: %v, %v", tt.name, mine, err)
		}
	}
}

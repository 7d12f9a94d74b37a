package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
)

// TestPictureOfMembers draws a hundred members, of which each is quicker than the one
// before; the first has failed calls.
func TestPictureOfMembers(t *testing.T) {
	r := &content.Report{}
	for i := range 100 {
		slow := time.Duration(100-i) * time.Millisecond
		x := &run.Cluster{Name: fmt.Sprintf("edge-%d", i+1), Width: time.Second, Bins: make([]run.ClusterBin, 300)}
		x.Bins[i%300] = run.ClusterBin{Calls: 1, Slowest: slow}
		r.Members = append(r.Members, content.MemberRow{Name: x.Name, N: 1, P99: slow.Seconds(), Max: slow.Seconds(), Cluster: x})
	}
	r.Members[0].Cluster.Bins[0].Bad = 1
	v := newMembersView(r)
	if len(v.Rows) != listedMembers || len(v.Names) != drawnMembers || len(v.Cells) != drawnMembers || !v.Cells[0].Bad || v.Cells[1].Bad || v.Note == "" {
		t.Errorf("%d rows, %d names, %d cells, note %q", len(v.Rows), len(v.Names), len(v.Cells), v.Note)
	}
	if v.Cells[0].Dark <= v.Cells[drawnMembers-1].Dark || v.Width > memberNames+memberWidth {
		t.Errorf("the slowest is %v dark, another %v; %v wide", v.Cells[0].Dark, v.Cells[drawnMembers-1].Dark, v.Width)
	}
	if newMembersView(&content.Report{}) != nil {
		t.Error("a picture of no members")
	}
	text := &summaryText{width: 80}
	text.writeMembers(r)
	for line := range strings.Lines(text.b.String()) {
		if displayWidth(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than 80: %s", line)
		}
	}
	var out bytes.Buffer
	page, err := renderTemplate("run", &view{Report: r, MemberView: v})
	if out.WriteString(string(page)); err != nil || strings.Count(out.String(), "<rect") < drawnMembers || !strings.Contains(out.String(), `fill="#d1242f"`) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

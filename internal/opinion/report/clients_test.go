package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
)

// TestClients shows fifty clients, two of them users of one, in each form: the largest by
// name, the others as a sum.
func TestClients(t *testing.T) {
	a := &run.Attribution{}
	for i := range 50 {
		a.Clients = append(a.Clients, run.Client{
			Name: fmt.Sprintf("client-%d", i), Version: "v1", User: "<b>u", Requests: float64(100 - i), Seconds: 0.5, Share: 0.02, CPU: 0.04, Allocated: 2e6,
			Kinds: map[run.RequestKey]float64{{Verb: "update", Resource: "pods", Subresource: "status"}: float64(90 - i), {Verb: "get"}: 10},
		})
	}
	a.Clients[49].Name, a.Clients[49].User = "client-0", "v"
	r := &content.Report{Clients: a}
	rows := clientRows(a.ByName(), 3)
	if len(rows) != 3 || rows[0].Name != "client-0 v1" || rows[0].Requests.Value != 151 || rows[0].Share != "4.0 %" || rows[0].Busiest != "131 update pods/status, 20 get (no resource)" {
		t.Errorf("%+v", rows[0])
	}
	if last := rows[2]; last.Name != "47 others" || last.Requests.Value+rows[1].Requests.Value != 50*100-49*50/2-151 {
		t.Errorf("%+v", last)
	}
	short := &summaryText{width: 80}
	short.writeClients(r)
	if text := short.b.String(); strings.Count(text, "client-") != summaryClients-1 || !strings.Contains(text, "42 others") || !strings.Contains(text, "a model") {
		t.Error(text)
	}
	for line := range strings.Lines(short.b.String()) {
		if displayWidth(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than 80: %s", line)
		}
	}
	var m markdown
	m.writeClients(clientsByName(r, markdownClients))
	if strings.Count(m.String(), "client-") != markdownClients-1 {
		t.Error(m.String())
	}
	var out bytes.Buffer
	page, err := renderTemplate("run", &view{Report: r, Clients: pageClientRows(r), ClientModel: clientModel})
	if out.WriteString(string(page)); err != nil || strings.Count(out.String(), "client-") != pageClients-1 || !strings.Contains(out.String(), "&lt;b&gt;u") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if rows := pageClientRows(&content.Report{}); rows != nil {
		t.Errorf("clients of a run without an audit log: %+v", rows)
	}
}

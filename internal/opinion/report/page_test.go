package report_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// What gave way first is told in the order of its ranks, with its evidence; a
// run without a diagnosis has no such section.
func TestWhatGaveWay(t *testing.T) {
	page := html(t, build(t, reporttest.Shape{Pods: 100, Gave: true}, false))
	first, second := strings.Index(page, "412 pods waited to be bound"), strings.Index(page, "held it back for 7.1 s")
	if first < 0 || second < first {
		t.Errorf("the causes stand at %d and %d", first, second)
	}
	for _, want := range []string{"Bottlenecks, most limiting first", "CPU (kube-scheduler)", "Try: a second scheduler profile", "0.98 cores", "against 1 core"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(html(t, build(t, reporttest.Shape{Pods: 100}, false)), "gave way first") {
		t.Error("a run without a diagnosis has the section")
	}
}

// A diagnosis that cannot be read is said, and costs nothing else.
func TestUnreadableDiagnosis(t *testing.T) {
	s := reporttest.Shape{Pods: 100}
	d, m, err := reporttest.Write(t.TempDir(), s)
	repotest.NoError(t, err)
	for _, text := range []string{`{`, `[{"rank": "first"}]`, `{"causes": []}`} {
		repotest.NoError(t, os.WriteFile(d.File("diagnosis.json"), []byte(text), 0o600))
		if _, err := diagnose.Read(d); err == nil || !strings.HasPrefix(err.Error(), "decode diagnosis.json: ") {
			t.Errorf("%s: %v", text, err)
		}
		repotest.NoError(t, d.WriteJSON(record.ManifestFile, m))
		r := repotest.Must(judge.Shown(string(d)))(t)
		if page := html(t, r); !strings.Contains(page, "The diagnosis is left out: decode diagnosis.json") {
			t.Errorf("%s: the page does not say that it could not be read", text)
		}
	}
}

// A run under way has no verdict, and its missing end is no fault.
func TestUnderWay(t *testing.T) {
	r := build(t, reporttest.Shape{Pods: 300, CutOff: true}, false)
	r.UnderWay()
	p := repotest.Must(report.NewPage(r))(t)
	if p.State != "running" || !strings.HasPrefix(p.Title, "Under way") {
		t.Errorf("state %q, title %q", p.State, p.Title)
	}
	for _, want := range []string{"Under way for ", "300 pods so far.", "Still being written"} {
		if !strings.Contains(string(p.Main), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(string(p.Main), "Without an end") {
		t.Error("the page doubts a run for not having ended yet")
	}
}

// What the live page is sent is a JSON object with markup and data, whatever
// numbers are missing.
func TestPageAsJSON(t *testing.T) {
	p := repotest.Must(report.NewPage(build(t, reporttest.Shape{Pods: 100, CutOff: true}, false)))(t)
	raw := repotest.Must(json.Marshal(p))(t)
	var back struct {
		Kind, State, Title, Name, Started, When, Main string
		Data                                          struct {
			From, To float64
			Time     []struct{ ID string }
		}
	}
	repotest.NoError(t, json.Unmarshal(raw, &back))
	if back.Kind != "run" || back.Started != "2026-09-14T10:22:05Z" || !strings.Contains(back.Main, `<section id="verdict"`) || len(back.Data.Time) < 8 || back.Data.To <= back.Data.From {
		t.Errorf("page %.400s", raw)
	}
}

func TestShellHasNoRun(t *testing.T) {
	var out strings.Builder
	repotest.NoError(t, report.Shell(&out))
	page := out.String()
	if !strings.Contains(page, `id="data"></script>`) || !strings.Contains(page, "connect-src &#39;self&#39;") {
		t.Error("the shell holds data, or may not ask its own server")
	}
	if strings.Contains(html(t, build(t, reporttest.Shape{Pods: 50}, true)), "connect-src &#39;self&#39;") {
		t.Error("report.html may ask a server")
	}
}

// A step that waits for the plane to come to rest is a gate; the report says
// whether it did.
// TestPodsOfNoGroup holds that the pods that a run is said to have are its scenario's.
func TestPodsOfNoGroup(t *testing.T) {
	for others, want := range map[int]string{0: `<dt>Pods</dt><dd>60</dd>`, 4: `<dt>Pods</dt><dd>60, and 4 of no group</dd>`} {
		page := html(t, build(t, reporttest.Shape{Pods: 50, Latency: 10, Others: others}, true))
		if !strings.Contains(page, want) {
			t.Errorf("%d others: the page lacks %s", others, want)
		}
	}
}

func TestSettling(t *testing.T) {
	s := reporttest.Shape{Pods: 100}
	d, m, err := reporttest.Write(t.TempDir(), s)
	repotest.NoError(t, err)
	m.Parameters = nil
	cools := func(step, note string) content.Finding {
		t.Helper()
		repotest.NoError(t, os.WriteFile(d.File(record.ScenarioFile), []byte("scenario: rests\nsteps:\n- name: all\n  sequence:\n  - name: "+step+"\n    settle: {within: 1m}\n"), 0o600))
		repotest.NoError(t, os.Remove(d.File(record.StreamFile)))
		w := repotest.Must(record.Create(d.File(record.StreamFile)))(t)
		w.Event(record.Event{Type: record.EventStepBegan, Name: "rest"})
		w.Event(record.Event{At: 1e9, Type: record.EventStepEnded, Name: "rest", Text: note})
		w.Event(record.Event{At: 2e9, Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
		repotest.NoError(t, w.Close())
		r := content.Build(reporttest.Read(t, d, m), reporttest.Judgement(s, true), reporttest.Found(t, d))
		for _, f := range r.Trust {
			if f.Name == "Settling" {
				return f
			}
		}
		return content.Finding{}
	}
	if f := cools("rest", ""); f.Level != content.Fine {
		t.Errorf("a plane that came to rest: %v", f)
	}
	if f := cools("rest", "the plane did not come to rest"); f.Level != content.Bad || !strings.Contains(f.Text, "step rest") {
		t.Errorf("a plane that did not: %v", f)
	}
	if f := cools("other", ""); f.Text != "" {
		t.Errorf("a step that was never reached: %v", f)
	}
}

// invented writes a run that differs from others by its seed and its start.
func invented(t testing.TB, s reporttest.Shape, n int) (record.Dir, record.Manifest) {
	t.Helper()
	s.Seed = uint64(n + 1)
	d, m, err := reporttest.Write(t.TempDir(), s)
	repotest.NoError(t, err)
	m.Started = m.Started.Add(time.Duration(n) * time.Minute)
	return d, m
}

// The head of a run of a reference plane says how many edges, apps or machines it had:
// it may have neither nodes nor pods of its own.
func TestHeadHasSizesOfReferencePlanes(t *testing.T) {
	r := build(t, reporttest.Shape{Pods: 300}, true)
	r.Manifest.Parameters = map[string]any{"edges": 1500.0, "apps": 0.0, "preset": "improved"}
	head, _, _ := strings.Cut(summary(t, r, 200), "\n\n")
	if !strings.Contains(head, " · edges 1,500 · ") || strings.Contains(head, "apps") || strings.Contains(head, "preset") {
		t.Errorf("head:\n%s", head)
	}
}

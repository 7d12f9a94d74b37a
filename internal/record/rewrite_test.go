package record_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/recordtest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestRewriteStream edits texts of a stream, and of one that a crash cut off. The runs of
// format 1 are real ones, with scrapes and native histograms.
func TestRewriteStream(t *testing.T) {
	b := (&recordtest.Block{}).Event(0, "run-begin", "x", "").Event(5, "warning", "", "from host-a to host-a")
	b.Kind(recordtest.Op).Text("load", "fill", "create", "pods", "", "resource").Kind(recordtest.Call).Uint(0).Int(5, 5, 5).Uint(201<<2, 0, 0, 0)
	made := recordtest.Stream(b, (&recordtest.Block{}).Event(9, "warning", "", "host-a"))
	dir := record.Dir(t.TempDir())
	for name, raw := range map[string][]byte{"whole": made, "cut": made[:len(made)-3], "nothing": made[:len(recordtest.Header)]} {
		repotest.NoError(t, os.WriteFile(dir.File(name), raw, 0o600))
		var same, edited bytes.Buffer
		repotest.NoError(t, dir.RewriteStream(&same, name, func(s string) string { return s }))
		if want := recordtest.Payloads(raw); len(want) > 0 && !bytes.Equal(same.Bytes()[:len(raw)-lost(t, dir, name)], raw[:len(raw)-lost(t, dir, name)]) || same.Len() != len(raw) {
			t.Errorf("%s: nothing was edited, and the bytes are others", name)
		}
		repotest.NoError(t, dir.RewriteStream(&edited, name, func(s string) string { return strings.ReplaceAll(s, "host-a", "somewhere else") }))
		repotest.NoError(t, os.WriteFile(dir.File("edited"), edited.Bytes(), 0o600))
		var was, is []string
		before := visitTexts(t, dir, name, &was)
		after := visitTexts(t, dir, "edited", &is)
		if strings.ReplaceAll(strings.Join(was, "|"), "host-a", "somewhere else") != strings.Join(is, "|") || before.LostBytes != after.LostBytes || before.CutOff != after.CutOff {
			t.Errorf("%s: %q became %q, %d lost bytes became %d", name, was, is, before.LostBytes, after.LostBytes)
		}
	}
	for _, run := range []string{"density", "failed", "vm"} {
		kept := record.Dir(filepath.Join("..", "opinion", "judge", "testdata", "format1", run))
		var out bytes.Buffer
		repotest.NoError(t, kept.RewriteStream(&out, record.StreamFile, func(s string) string { return s }))
		raw, err := os.ReadFile(kept.File(record.StreamFile))
		if err != nil || !bytes.Equal(out.Bytes(), raw) {
			t.Errorf("%s: nothing was edited, and the bytes are others: %v", run, err)
		}
	}
}

func lost(t *testing.T, dir record.Dir, name string) int {
	t.Helper()
	var none []string
	return int(visitTexts(t, dir, name, &none).LostBytes)
}

// visitTexts reads a stream and collects the texts of its events.
func visitTexts(t *testing.T, dir record.Dir, name string, texts *[]string) *record.Stream {
	t.Helper()
	s := repotest.Must(dir.ReadStream(name, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(e record.Event) { *texts = append(*texts, e.Text) }}
	}))(t)
	return s
}

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// here returns the objects whose stages lie in the folder.
func here(t testing.TB) (onJSON, onMessages []subject) {
	t.Helper()
	stages, inputs := repotest.Compat(t, "kwok"), t.TempDir()
	all, err := filepath.Glob(filepath.Join("inputs", "*", "*"))
	if err != nil || len(all) == 0 {
		t.Fatal("no inputs", err)
	}
	for _, set := range all {
		rel := repotest.Must(filepath.Rel("inputs", set))(t)
		if _, err := os.Stat(filepath.Join(stages, rel)); err != nil {
			t.Logf("no stages %s here", rel)
			continue
		}
		repotest.NoError(t, os.CopyFS(filepath.Join(inputs, rel), os.DirFS(set)))
	}
	onJSON, onMessages, err = readSubjects(stages, inputs)
	repotest.NoError(t, err)
	return onJSON, onMessages
}

// TestPathsAgree plays every object in both forms: the same stage is chosen of its
// message as of its JSON.
func TestPathsAgree(t *testing.T) {
	onJSON, onMessages := here(t)
	for _, s := range slices.Concat(onJSON, onMessages) {
		for _, call := range []func() error{s.match, s.play, s.wire} {
			if err := call(); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
	for _, s := range onMessages {
		at := slices.IndexFunc(onJSON, func(g subject) bool { return g.name == s.name })
		if at < 0 || onJSON[at].stage != s.stage {
			t.Errorf("%s: of the message plays %q, of the JSON another", s.name, s.stage)
		}
	}
	if len(onMessages) < 4 {
		t.Errorf("only %d objects are played on messages", len(onMessages))
	}
}

// BenchmarkStages is our half of the comparison of stage engines; the command of
// module bench/kwok is the other.
func BenchmarkStages(b *testing.B) {
	onJSON, onMessages := here(b)
	for path, subjects := range map[string][]subject{"json": onJSON, "message": onMessages} {
		for _, s := range subjects {
			for op, call := range map[string]func() error{"match": s.match, "play": s.play, "wire": s.wire} {
				b.Run(op+"/"+path+"/"+s.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						repotest.NoError(b, call())
					}
				})
			}
		}
	}
}

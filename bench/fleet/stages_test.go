package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// here returns the objects whose stages lie in the folder.
func here(t testing.TB) (general, typed []subject) {
	t.Helper()
	stages, inputs := repotest.Compat(t, "kwok"), t.TempDir()
	all, err := filepath.Glob(filepath.Join("inputs", "*", "*"))
	if err != nil || len(all) == 0 {
		t.Fatal("no inputs", err)
	}
	for _, set := range all {
		rel, err := filepath.Rel("inputs", set)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(stages, rel)); err != nil {
			t.Logf("no stages %s here", rel)
			continue
		}
		if err := os.CopyFS(filepath.Join(inputs, rel), os.DirFS(set)); err != nil {
			t.Fatal(err)
		}
	}
	general, typed, err = subjects(stages, inputs)
	if err != nil {
		t.Fatal(err)
	}
	return general, typed
}

// TestPathsAgree plays every object by every path: the typed one chooses the
// same stage as the general one.
func TestPathsAgree(t *testing.T) {
	general, typed := here(t)
	for _, s := range slices.Concat(general, typed) {
		for _, call := range []func() error{s.match, s.play, s.wire} {
			if err := call(); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
	for _, s := range typed {
		at := slices.IndexFunc(general, func(g subject) bool { return g.name == s.name })
		if at < 0 || general[at].stage != s.stage {
			t.Errorf("%s: the typed path plays %q, the general one another", s.name, s.stage)
		}
	}
	if len(typed) < 4 {
		t.Errorf("only %d objects are served typed", len(typed))
	}
}

// BenchmarkStages is our half of the comparison of stage engines; the command of
// module bench/kwok is the other.
func BenchmarkStages(b *testing.B) {
	general, typed := here(b)
	for path, subjects := range map[string][]subject{"general": general, "typed": typed} {
		for _, s := range subjects {
			for op, call := range map[string]func() error{"match": s.match, "play": s.play, "wire": s.wire} {
				b.Run(op+"/"+path+"/"+s.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := call(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

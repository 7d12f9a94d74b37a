package builtin_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/golden"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

func TestSetsCompile(t *testing.T) {
	for _, name := range builtin.Names() {
		f, err := builtin.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := machine.Compile(f.Stages)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Resources()) == 0 || len(m.Findings()) > 0 {
			t.Errorf("%s: %v, %v", name, m.Resources(), m.Findings())
		}
	}
	if _, err := builtin.Load("fats"); !errors.Is(err, builtin.ErrUnknown) {
		t.Errorf("fats: %v", err)
	}
}

var rewrite = flag.Bool("rewrite", false, "write what the sets do into their test data")

func TestPairs(t *testing.T) {
	if *rewrite {
		inputs, err := filepath.Glob("*/testdata/*.input.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range inputs {
			out, err := golden.Play(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(strings.TrimSuffix(path, ".input.yaml")+".output.yaml", out, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out bytes.Buffer
	result, err := golden.Run(&out, builtin.Names())
	if err != nil || result.Failed > 0 || result.Passed < 20 {
		t.Errorf("%+v, %v\n%s", result, err, &out)
	}
}

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
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

func TestSetsCompile(t *testing.T) {
	for _, name := range builtin.Names() {
		f := repotest.Must(builtin.Load(name))(t)
		m := repotest.Must(machine.Compile(f.Stages))(t)
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
		inputs := repotest.Must(filepath.Glob("*/testdata/*.input.yaml"))(t)
		for _, path := range inputs {
			out := repotest.Must(golden.Play(path))(t)
			repotest.NoError(t, os.WriteFile(strings.TrimSuffix(path, ".input.yaml")+".output.yaml", out, 0o600))
		}
	}
	var out bytes.Buffer
	result, err := golden.Run(&out, builtin.Names())
	if err != nil || result.Failed > 0 || result.Passed < 20 {
		t.Errorf("%+v, %v\n%s", result, err, &out)
	}
}

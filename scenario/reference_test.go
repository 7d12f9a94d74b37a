package scenario_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/windtunnel/windtunnel/scenario"
)

var rewriteReference = flag.Bool("rewrite", false, "write docs/scenario.md anew")

func TestReferenceIsUpToDate(t *testing.T) {
	const page = "../docs/scenario.md"
	want := scenario.Reference()
	if *rewriteReference {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say: go test ./scenario -run Reference -rewrite", page)
	}
}

package summary_test

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/summary"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/scenario"
)

func ExampleFiles() {
	export := func(dir record.Dir, s *scenario.Scenario, m record.Manifest) error {
		facts, err := slo.Collect(dir.File(record.StreamFile))
		if err != nil {
			return err
		}
		files, err := summary.Files(summary.Run{Scenario: s, Manifest: m, Facts: facts, Judgement: slo.Judge(s, m, facts)})
		fmt.Println(len(files), "files")
		return err
	}
	fmt.Println(export("testdata/no-such-run", &scenario.Scenario{Name: "density"}, record.Manifest{}) != nil)
	// Output:
	// true
}

package perfdata_test

import (
	"fmt"

	"github.com/windtunnel/windtunnel/perfdata"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/scenario"
	"github.com/windtunnel/windtunnel/slo"
)

func ExampleFiles() {
	export := func(dir record.Dir, s *scenario.Scenario, m record.Manifest) error {
		facts, err := slo.Collect(dir.File(record.StreamFile))
		if err != nil {
			return err
		}
		files, err := perfdata.Files(perfdata.Run{Scenario: s, Manifest: m, Facts: facts, Judgement: slo.Judge(s, m, facts)})
		fmt.Println(len(files), "files")
		return err
	}
	fmt.Println(export("testdata/no-such-run", &scenario.Scenario{Name: "density"}, record.Manifest{}) != nil)
	// Output:
	// true
}

package summary_test

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/summary"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
)

func ExampleFiles() {
	export := func(dir string) error {
		r, err := run.Open(dir)
		if err != nil {
			return err
		}
		j, err := slo.Judge(r)
		if err != nil {
			return err
		}
		files, err := summary.Files(r, j)
		fmt.Println(len(files), "files")
		return err
	}
	fmt.Println(export("testdata/no-such-run") != nil)
	// Output:
	// true
}

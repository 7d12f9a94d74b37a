package flight

import (
	"io"

	"github.com/windtunnel/windtunnel/internal/report"
)

// Markdown judges a run directory again and writes its summary in Markdown. It
// changes nothing in the directory.
func Markdown(path string, w io.Writer) error {
	defer frugally()()
	j, err := judge(path)
	if err != nil {
		return err
	}
	built, err := report.Build(j.dir, j.manifest, j.Judgement)
	if err != nil {
		return err
	}
	return built.Markdown(w)
}

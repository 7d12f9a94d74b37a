package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// readScenario returns the text of the run's scenario, empty when it is missing.
func readScenario(dir record.Dir) (string, error) {
	raw, err := os.ReadFile(dir.File(record.ScenarioFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read scenario: %w", err)
	}
	return string(raw), nil
}

// publishedIn returns the published figures of a scenario. Only those are
// decoded: the rest was in force when the run was made, and a later version's
// stricter rules must not make it unreadable.
func publishedIn(text string) ([]scenario.Published, error) {
	var only struct {
		Published []scenario.Published `yaml:"published"`
	}
	if err := yaml.Unmarshal([]byte(text), &only); err != nil {
		return nil, fmt.Errorf("decode %s: %w", record.ScenarioFile, err)
	}
	return only.Published, nil
}

// livesIn returns the lives that a scenario declares, for their phases' order.
func livesIn(text string) ([]scenario.Lifecycle, error) {
	var only struct {
		Lifecycles []scenario.Lifecycle `yaml:"lifecycles"`
		Former     []scenario.Lifecycle `yaml:"lives"` // what they were called
	}
	if err := yaml.Unmarshal([]byte(text), &only); err != nil {
		return nil, fmt.Errorf("decode %s: %w", record.ScenarioFile, err)
	}
	out := append(only.Lifecycles, only.Former...)
	for i, l := range out {
		out[i] = l.Resolved()
	}
	return out, nil
}

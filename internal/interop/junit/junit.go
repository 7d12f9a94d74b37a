// Package junit writes a verdict as JUnit XML, the form in which CI systems
// show tests: one test suite for the run, one test case for each objective.
//
// A missed objective is a failure. One that could not be judged is an error,
// which is what the format has for a test that did not come to a result, so
// that no CI system shows an unknown as green. When the run's own verdict is
// not a pass and no objective says so (it was interrupted, the instrument was
// too slow), a test case "run" is an error and names the reasons.
//
// It judges nothing.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Suite    suite    `xml:"testsuite"`
}

type suite struct {
	Name       string     `xml:"name,attr"`
	Tests      int        `xml:"tests,attr"`
	Failures   int        `xml:"failures,attr"`
	Errors     int        `xml:"errors,attr"`
	Skipped    int        `xml:"skipped,attr"`
	Timestamp  string     `xml:"timestamp,attr"`
	Time       string     `xml:"time,attr,omitempty"`
	Properties []property `xml:"properties>property"`
	Cases      []testCase `xml:"testcase"`
}

type property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type testCase struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Failure *problem `xml:"failure"`
	Error   *problem `xml:"error"`
	Out     string   `xml:"system-out,omitempty"`
}

type problem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// Write writes the judgement of the run that m describes. The same run gives
// the same bytes.
func Write(w io.Writer, m record.Manifest, j slo.Judgement) error {
	s := suite{Name: m.Scenario, Timestamp: m.Started.UTC().Format("2006-01-02T15:04:05"), Properties: listProperties(m)}
	if seconds, ok := j.Measures["run_seconds"]; ok {
		s.Time = strconv.FormatFloat(seconds.Value, 'f', 3, 64)
	}
	for _, r := range j.Objectives {
		s.addCase(newCase(s.Name, r))
	}
	if j.Verdict == slo.Unknown || j.Verdict != slo.Pass && s.Failures+s.Errors == 0 {
		s.addCase(testCase{Name: "run", Class: s.Name, Error: &problem{
			Message: firstOr(j.Reasons, "the run has no verdict"), Type: "unknown", Text: strings.Join(j.Reasons, "\n"),
		}})
	}
	out, err := xml.MarshalIndent(suites{Tests: s.Tests, Failures: s.Failures, Errors: s.Errors, Suite: s}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode JUnit: %w", err)
	}
	if _, err := io.WriteString(w, xml.Header+string(out)+"\n"); err != nil {
		return fmt.Errorf("write JUnit: %w", err)
	}
	return nil
}

func (s *suite) addCase(c testCase) {
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Error != nil {
		s.Errors++
	}
	s.Cases = append(s.Cases, c)
}

func listProperties(m record.Manifest) []property {
	out := []property{{"seed", strconv.FormatUint(m.Seed, 10)}, {"cores", strconv.Itoa(m.Machine.Cores)}, {"nodes", strconv.Itoa(m.Fleet.Nodes)}}
	for _, k := range slices.Sorted(maps.Keys(m.Versions)) {
		out = append(out, property{"version." + k, m.Versions[k]})
	}
	for _, k := range slices.Sorted(maps.Keys(m.Parameters)) {
		out = append(out, property{"parameter." + k, fmt.Sprint(m.Parameters[k])})
	}
	return out
}

func newCase(class string, r slo.Result) testCase {
	text := outcomeText(r)
	c := testCase{Name: caseName(r), Class: class}
	switch r.Verdict {
	case slo.Pass:
		c.Out = text
	case slo.Fail:
		c.Failure = &problem{Message: failureMessage(r), Type: "fail", Text: text}
	default:
		c.Error = &problem{Message: failureMessage(r), Type: "unknown", Text: text}
	}
	return c
}

// caseName tells objectives of one name apart by their labels: "pod startup p99
// (group=latency)". It has no figures, so that a history of runs lines up.
func caseName(r slo.Result) string {
	out := r.Name
	if r.Statistic != "" {
		out += " " + r.Statistic
	}
	if len(r.Labels) > 0 {
		out += " (" + strings.Join(text.Pairs(r.Labels), ", ") + ")"
	}
	return out
}

func failureMessage(r slo.Result) string {
	side := "above its bound of "
	if r.AtLeast {
		side = "below its bound of "
	}
	switch {
	case r.Value == nil:
		return firstOr(r.Warnings, "not measured")
	case r.Verdict == slo.Unknown:
		return unit.Text(*r.Value, r.Unit) + ", bound " + unit.Text(r.Threshold, r.Unit) + ": " + firstOr(r.Warnings, "not decided")
	default:
		return unit.Text(*r.Value, r.Unit) + ", " + side + unit.Text(r.Threshold, r.Unit)
	}
}

// outcomeText is everything about a result, line by line.
func outcomeText(r slo.Result) string {
	bound := "at most "
	if r.AtLeast {
		bound = "at least "
	}
	value := "not measured"
	if r.Value != nil {
		value = unit.Text(*r.Value, r.Unit)
	}
	lines := []string{"value: " + value, "bound: " + bound + unit.Text(r.Threshold, r.Unit), "samples: " + strconv.Itoa(r.Samples)}
	if r.Interval != nil {
		lines = append(lines, "interval: "+unit.Text(r.Interval[0], r.Unit)+" to "+unit.Text(r.Interval[1], r.Unit))
	}
	for _, w := range r.Warnings {
		lines = append(lines, "warning: "+w)
	}
	return strings.Join(lines, "\n")
}

func firstOr(list []string, other string) string {
	if len(list) == 0 {
		return other
	}
	return list[0]
}

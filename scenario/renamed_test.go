package scenario_test

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestFormerWords reads a file in the words of an earlier version: it is the
// same scenario as one in the present words, with a warning for each of them.
func TestFormerWords(t *testing.T) {
	const former, present = "testdata/former.yaml", "testdata/present.yaml"
	got := repotest.Must(scenario.Load(former, nil))(t)
	raw := repotest.Must(os.ReadFile(former))(t)
	var want []string
	for i, line := range strings.Split(string(raw), "\n") {
		if _, text, ok := strings.Cut(line, "# warns: "); ok {
			for one := range strings.SplitSeq(text, ", ") {
				old, now, _ := strings.Cut(one, " ")
				want = append(want, former+":"+strconv.Itoa(i+1)+": \""+old+"\" is now called \""+now+"\"")
			}
		}
	}
	slices.Sort(want)
	if sorted := slices.Sorted(slices.Values(got.Warnings)); !slices.Equal(sorted, want) {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(sorted, "\n"), strings.Join(want, "\n"))
	}
	same, err := scenario.Load(present, nil)
	if err != nil || len(same.Warnings) > 0 {
		t.Fatalf("%v, warnings %q", err, same.Warnings)
	}
	var a, b bytes.Buffer
	for to, s := range map[*bytes.Buffer]*scenario.Scenario{&a: got, &b: same} {
		repotest.NoError(t, scenario.Write(to, s))
	}
	if a.String() != b.String() {
		t.Errorf("in former words it is\n%s\nin present ones\n%s", &a, &b)
	}
}

// TestFormerWordBesideItsSuccessor says both lines.
func TestFormerWordBesideItsSuccessor(t *testing.T) {
	for text, want := range map[string]string{
		"scenario: x\nlives: []\nsteps: [{pause: 1s}]\nlifecycles: []\n":                                               `x.yaml:4: "lifecycles" is what "lives" on line 2 was called`,
		"scenario: x\nsteps:\n- settle: {}\n  cool: {within: 1s}\n":                                                    `x.yaml:4: "cool" is what`,
		"scenario: x\npreflight:\n  dirty: tag\n  unclean: tag\nsteps: [{pause: 1s}]\n":                                `x.yaml:4: "unclean"`,
		"scenario: x\nsteps: [{pause: 1s}]\nobjectives:\n- sli: lifecycle\n  labels:\n    life: a\n    lifecycle: b\n": `x.yaml:7: `,
	} {
		if _, err := scenario.Parse("x.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}

// TestFormerMeasure shows a published figure beside a measure by its former key.
func TestFormerMeasure(t *testing.T) {
	text := "scenario: x\nsteps: [{pause: 1s}]\npublished:\n- {measure: life_vmi_created_to_ready_p50_seconds, value: 1, unit: seconds, source: s}\n- {measure: lifetime, value: 1, unit: seconds, source: s}\n"
	s, err := scenario.Parse("x.yaml", []byte(text), nil)
	if err != nil || s.Published[0].Measure != "lifecycle_vmi_created_to_ready_p50_seconds" || s.Published[1].Measure != "lifetime" ||
		!slices.Equal(s.Warnings, []string{`x.yaml:4: "life_vmi_created_to_ready_p50_seconds" is now called "lifecycle_vmi_created_to_ready_p50_seconds"`}) {
		t.Errorf("%v: %+v, warnings %q", err, s.Published, s.Warnings)
	}
}

// TestFormerParameter sets a parameter by its former name.
func TestFormerParameter(t *testing.T) {
	text := []byte("scenario: x\nparameters: {settleFor: 1s}\nsteps: [{pause: \"${settleFor}\"}]\n")
	s, err := scenario.Parse("x.yaml", text, map[string]string{"coolFor": "7s"})
	if err != nil || s.Values["settleFor"] != "7s" || !slices.Equal(s.Warnings, []string{`--set coolFor: parameter "coolFor" is now called "settleFor"`}) {
		t.Errorf("%v: %v, warnings %q", err, s.Values, s.Warnings)
	}
	if _, err := scenario.Parse("x.yaml", text, map[string]string{"coolFor": "7s", "settleFor": "8s"}); err == nil || !strings.Contains(err.Error(), "both are set") {
		t.Errorf("both names: %v", err)
	}
	own := bytes.ReplaceAll(text, []byte("settleFor"), []byte("coolFor"))
	if s, err := scenario.Parse("x.yaml", own, map[string]string{"coolFor": "7s"}); err != nil || s.Values["coolFor"] != "7s" || len(s.Warnings) > 0 {
		t.Errorf("a file's own parameter: %v, warnings %q", err, s.Warnings)
	}
}

package kwok_test

import (
	"errors"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// upper reads text that is all upper case.
type upper string

func (u *upper) UnmarshalText(text []byte) error {
	for _, c := range text {
		if c >= 'a' && c <= 'z' {
			return errors.New("want upper case")
		}
	}
	*u = upper(text)
	return nil
}

type body struct {
	Kept string `yaml:"kept"`
	Spec struct {
		Small  int32   `yaml:"small"`
		Whole  uint    `yaml:"whole"`
		Number float64 `yaml:"number"`
		Text   *upper  `yaml:"text"`
		Map    map[string]struct {
			A string `yaml:"a"`
		} `yaml:"map"`
		Ports []int32 `yaml:"ports"`
	} `yaml:"spec"`
}

func TestDocumentDecode(t *testing.T) {
	f := repotest.Must(kwok.Load("d.yaml", []byte(`apiVersion: a/v1
kind: Thing
metadata: {name: n, namespace: ns, labels: {a: 1}}
spec:
  small: -7
  whole: 8
  number: 3
  text: 12
  map: {x: {a: b}}
  ports: [1, 2]
status: {x: y}
`)))(t)
	d := f.Others[0]
	b := body{Kept: "as it was"}
	repotest.NoError(t, d.Decode(&b))
	if d.Namespace != "ns" || b.Kept != "as it was" || b.Spec.Small != -7 || b.Spec.Whole != 8 || b.Spec.Number != 3 || *b.Spec.Text != "12" ||
		b.Spec.Map["x"].A != "b" || len(b.Spec.Ports) != 2 {
		t.Errorf("%+v", b)
	}
	if got := d.Fault("spec.map[\"x\"].a", errors.New("bad")).Error(); got != `d.yaml:9: Thing n: spec.map["x"].a: bad` {
		t.Error(got)
	}
}

func TestDocumentFaults(t *testing.T) {
	for text, want := range map[string]string{
		"spac: {}":                     `f:3: Thing n: spac: there is no field "spac"; is it "spec"?`,
		"spec: {small: 1, smal: 2}":    `f:3: Thing n: spec.smal: there is no field "smal"; is it "small"?`,
		"spec: {small: 3000000000}":    "f:3: Thing n: spec.small: 3000000000 is out of range",
		"spec: {whole: -1}":            "f:3: Thing n: spec.whole: -1 is out of range",
		"spec: {number: much}":         `f:3: Thing n: spec.number: want a number, got a string "much"`,
		"spec: {text: low}":            "f:3: Thing n: spec.text: want upper case",
		"spec: {text: [A]}":            "f:3: Thing n: spec.text: want a single value, got a list",
		"spec:\n  map:\n    x: {b: 1}": `f:5: Thing n: spec.map["x"].b: there is no field "b"`,
		"spec: {ports: [a]}":           `f:3: Thing n: spec.ports[0]: want a whole number, got a string "a"`,
	} {
		f := repotest.Must(kwok.Load("f", []byte("kind: Thing\nmetadata: {name: n}\n"+text)))(t)
		if err := f.Others[0].Decode(&body{}); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestLoadObject(t *testing.T) {
	f := repotest.Must(kwok.LoadObject("Thing a/b", []byte(`{"kind": "Thing", "metadata": {"name": "b"}, "spec": {"small": "x"}}`)))(t)
	if err := f.Others[0].Decode(&body{}); err == nil || err.Error() != `Thing a/b: spec.small: want a whole number, got a string "x"` {
		t.Error(err)
	}
	if got := f.Others[0].Fault("spec", errors.New("bad")).Error(); got != "Thing a/b: spec: bad" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		`[]`:                    "o: a document must be a mapping with apiVersion and kind",
		"kind: A\n---\nkind: B": "o: want one object, got 2",
		`{"kind": "Stage"}`:     `o: apiVersion: want kwok.x-k8s.io/v1alpha1, got ""`,
		``:                      "o: want one object, got 0",
	} {
		if _, err := kwok.LoadObject("o", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

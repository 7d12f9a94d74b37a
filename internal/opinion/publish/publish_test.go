package publish_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestBundle(t *testing.T) {
	key := signer(t, "author")
	o := publish.Options{Source: experiment(t, 5, nil), Claims: []byte(claimsText), Key: key, MadeBy: "v1", Remove: []string{"etcd"}}
	raw := made(t, o)
	if again := made(t, o); !bytes.Equal(raw, again) {
		t.Error("the same experiment gives other bytes")
	}
	v := verify(t, raw, "v1", key)
	if v.State != publish.Holds {
		t.Errorf("%s: %+v", v.State, v.Checks)
	}
	if v.Results.Level != publish.LevelMeasured || len(v.Results.Runs) != 10 || len(v.Results.Claims) != 2 {
		t.Errorf("%+v", v.Results)
	}
	// Any tool opens it, and what tells who flew it is not in it.
	z := repotest.Must(zip.NewReader(bytes.NewReader(raw), int64(len(raw))))(t)
	for _, f := range z.File {
		in := repotest.Must(f.Open())(t)
		content := repotest.Must(io.ReadAll(in))(t)
		if strings.HasSuffix(f.Name, ".gz") {
			content = expand(t, content)
		}
		for _, gone := range []string{"10.1.2.3", "jane", "logs/etcd"} {
			if bytes.Contains(content, []byte(gone)) {
				t.Errorf("%s holds %s", f.Name, gone)
			}
		}
	}
	for _, want := range []string{"records.wt.gz", "manifest.json"} {
		if !bytes.Contains(raw, []byte("runs/a-01/"+want)) {
			t.Errorf("no %s", want)
		}
	}
}

// TestStates has a case for what a bundle may lack.
func TestStates(t *testing.T) {
	key, other := signer(t, "author"), signer(t, "somebody")
	folder := experiment(t, 5, nil)
	signed := made(t, publish.Options{Source: folder, Claims: []byte(claimsText), Key: key, MadeBy: "v1"})
	unsigned := made(t, publish.Options{Source: folder, Claims: []byte(claimsText), MadeBy: "v1"})
	check := func(v *publish.Verification, state, why string) {
		t.Helper()
		text := ""
		for _, c := range v.Checks {
			if c.State == v.State {
				text += c.Name + ": " + c.Why + "\n"
			}
		}
		if v.State != state || !strings.Contains(text, why) {
			t.Errorf("%s, want %s because of %q:\n%s", v.State, state, why, text)
		}
	}
	check(verify(t, signed, "v1", other, key), publish.Holds, "signature: signed by")
	check(verify(t, signed, "v1"), publish.Unknown, "say with --signer")
	check(verify(t, signed, "v1", other), publish.Fails, "no key that you trust")
	check(verify(t, unsigned, "v1", key), publish.Unknown, "not signed")
	check(verify(t, signed[:len(signed)-1], "v1", key), publish.Fails, "form:")
	check(verify(t, nil, "v1", key), publish.Fails, "cut off")
	check(verify(t, signed, "v2", key), publish.Holds, "") // the version does not matter as long as the results are the same

	// A run that is mentioned is gone before the bundle was made.
	repotest.NoError(t, os.RemoveAll(filepath.Join(folder, "b-03")))
	partial := made(t, publish.Options{Source: folder, Key: key, MadeBy: "v1"})
	check(verify(t, partial, "v1", key), publish.Unknown, "mentioned and not there: b-03")
	// One that cannot be read is left out with the reason.
	repotest.NoError(t, os.MkdirAll(filepath.Join(folder, "b-03"), 0o700))
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "b-03", "manifest.json"), []byte("{"), 0o600))
	partial = made(t, publish.Options{Source: folder, Key: key, MadeBy: "v1"})
	v := verify(t, partial, "v1", key)
	check(v, publish.Holds, "left out with a reason (1)")
	if strings.Contains(v.Results.LeftOut[0].Why, folder) {
		t.Errorf("the reason has a path: %s", v.Results.LeftOut[0].Why)
	}
}

// TestInterrupted publishes what there is of an experiment that was stopped before its
// runs were compared.
func TestInterrupted(t *testing.T) {
	folder := experiment(t, 3, nil)
	repotest.NoError(t, os.Remove(filepath.Join(folder, publish.ComparisonFile)))
	repotest.NoError(t, os.RemoveAll(filepath.Join(folder, "a-02")))
	repotest.NoError(t, os.Rename(filepath.Join(folder, "b-03"), filepath.Join(folder, "b-03-unfinished-1")))
	r := repotest.Must(publish.Make(t.Context(), io.Discard, publish.Options{Source: folder, MadeBy: "v1"}))(t)
	sides := map[string]int{}
	for _, run := range r.Runs {
		sides[run.Side]++
	}
	if sides["A"] != 2 || sides["B"] != 3 || strings.Join(r.Missing, " ") != "a-02 b-03" {
		t.Errorf("%v, missing %v", sides, r.Missing)
	}
}

// TestStopped stops the making of a bundle and its checking: nothing is left of either.
func TestStopped(t *testing.T) {
	folder, stopped := experiment(t, 3, nil), errors.New("stopped")
	bundle := filepath.Join(t.TempDir(), "x.wtb")
	repotest.NoError(t, os.WriteFile(bundle, made(t, publish.Options{Source: folder, MadeBy: "v1"}), 0o600))
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	var out bytes.Buffer
	if _, err := publish.Make(ctx, &out, publish.Options{Source: folder, MadeBy: "v1"}); !errors.Is(err, stopped) || out.Len() > 0 {
		t.Errorf("Make wrote %d bytes, and ended with %v", out.Len(), err)
	}
	if v, err := publish.Verify(ctx, bundle, nil, "v1"); !errors.Is(err, stopped) {
		t.Errorf("Verify ended with %+v, %v", v, err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestPublishable has an experiment that keeps every rule, and others that break one each.
func TestPublishable(t *testing.T) {
	sound := func(f *flown) { f.measured = true }
	alike := func(f *flown) { f.measured = true; f.latency = 1e7; f.order += 10; f.same = true }
	good, control := experiment(t, 5, sound), experiment(t, 5, alike)
	for _, c := range []struct {
		name, claims, rule, why string
		pairs                   int
		edit                    func(f *flown)
		control                 string
	}{
		{name: "sound", control: control},
		{name: "no control", rule: "control", why: "there is no control"},
		{name: "control differs", rule: "control", why: "its sides differ in parameter limiter", control: good},
		{name: "few", rule: "repeats", why: "4 finished runs", pairs: 4, control: control},
		{name: "busy", rule: "neighbors", why: "used 50 %", edit: func(f *flown) { f.busy = f.pair == 2 }, control: control},
		{name: "not measured", rule: "neighbors", why: "not measured", edit: func(f *flown) { f.measured = f.pair != 2 }, control: control},
		{name: "durability", rule: "durability", why: "does not say it", edit: func(f *flown) { f.fsync = false }, control: control},
		{name: "in blocks", rule: "order", why: "3 runs of side A", edit: func(f *flown) { f.order = f.pair + 5*f.side }, control: control},
		{name: "far apart", rule: "control", why: "apart", edit: func(f *flown) { f.order += 600 }, control: control},
		{name: "killed", rule: "repeats", why: "4 finished runs", edit: func(f *flown) { f.kill = f.pair == 1 && f.side == 0 }, control: control},
		{name: "samples", claims: "claims: [{says: fast, measure: call_latency_p50_seconds_fill, of: A, max: 11ms}]", rule: "samples", why: "20 samples in a run, want 74", control: control},
		{name: "enough", claims: "claims: [{says: fast, measure: call_latency_p50_seconds_fill, of: A, max: 11ms}]", edit: func(f *flown) { f.calls = 80 }, control: control},
		{name: "steady", claims: "claims: [{says: fast, measure: calls_total, of: A, max: 1000, steady: true}]", rule: "steady", why: "lasted 10", control: control},
		{name: "long", claims: "claims: [{says: fast, measure: calls_total, of: A, max: 1000, steady: true}]", edit: func(f *flown) { f.length = 700e9 }, control: control},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := experiment(t, cmp.Or(c.pairs, 5), func(f *flown) {
				sound(f)
				if c.edit != nil {
					c.edit(f)
				}
			})
			r, err := publish.Make(t.Context(), io.Discard, publish.Options{Source: source, Control: c.control, Claims: []byte(c.claims), MadeBy: "v1"})
			repotest.NoError(t, err)
			want := map[bool]string{true: publish.LevelPublishable, false: publish.LevelMeasured}[c.rule == ""]
			if r.Level != want {
				t.Errorf("level %s, want %s", r.Level, want)
			}
			for _, rule := range r.Checked {
				if rule.Met != (rule.Name != c.rule) || !rule.Met && !strings.Contains(rule.Why, c.why) {
					t.Errorf("%+v", rule)
				}
			}
		})
	}
}

// TestClaims has the faults of a file of claims and the states of a claim.
func TestClaims(t *testing.T) {
	folder := experiment(t, 5, nil)
	for _, c := range []struct{ claims, err, state string }{
		{claims: "claims: [{says: x, measure: calls_total, of: A, max: 20, min: 20}]", state: publish.Holds},
		{claims: "claims: [{says: x, measure: call_latency, statistic: p50, of: A, max: 11ms}]", err: `no run has it`},
		{claims: "claims: [{says: x, measure: calls_total, of: A, max: 19}]", state: publish.Fails},
		{claims: "claims: [{says: x, measure: calls_total, of: A, max: 20, confidence: 99%}]", state: publish.Unknown},
		{claims: "claims: [{says: x, measure: call_latency_p50_seconds_fill, of: B, max: 13.1ms}]", state: publish.Unknown},
		{claims: "claims: [{says: x, measure: call_latency_p50_seconds_fill, of: change, max: 10%}]", state: publish.Fails},
		{claims: "claims: [{says: x, measure: calls_total, of: B, with: {limiter: 10}, max: 20}]", state: publish.Holds},
		{claims: "claims: [{says: x, measure: calls_total, of: B, with: {limiter: 5}, max: 20}]", err: "no run has these parameters"},
		{claims: "claims: [{says: x, measure: calls_totl, of: A, max: 20}]", err: `no run has it (did you mean "calls_total"?)`},
		{claims: "claims: [{says: x, measure: calls_total, max: 20}]", err: "the experiment has 2 sides"},
		{claims: "claims: [{says: x, measure: calls_total, of: A, max: 20, than: 5}]", err: "line 1: field than not found"},
		{claims: "claims: [{says: x, measure: calls_total, of: A}]", err: "want max, min or both"},
		{claims: "claims: [{says: x, measure: calls_total, of: A, max: soon}]", err: "soon"},
		{claims: "claims: [{says: x, measure: calls_total, of: A, max: 1, min: 2}]", err: "min is above max"},
		{claims: "claims: [{says: x, measure: calls_total, of: A, max: 1, confidence: 5%}]", err: "confidence"},
		{claims: "claims: [{says: x, measure: calls_total, of: A, max: 20}, {says: y, measure: calls_total, of: A, min: 21}]", err: `"x" and "y" contradict each other`},
	} {
		r, err := publish.Make(t.Context(), io.Discard, publish.Options{Source: folder, Claims: []byte(c.claims), MadeBy: "v1"})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.claims, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.claims, err)
		case r.Claims[0].State != c.state:
			t.Errorf("%s: %+v", c.claims, r.Claims[0])
		}
	}
}

package publish_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const reproducedClaims = `claims:
- {says: Calls end within 11 ms, measure: call_latency_p50_seconds_fill, of: A, max: 11ms}
- {says: B is slower by a quarter or more, measure: call_latency_p50_seconds_fill, of: change, min: 25%}
- {says: It takes 20 calls, measure: calls_total, of: B, max: 20}
`

// opened publishes an experiment with these claims and opens it again.
func opened(t testing.TB, o publish.Options) *publish.Published {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.wtb")
	o.MadeBy = "v1"
	repotest.NoError(t, os.WriteFile(path, made(t, o), 0o600))
	p, v, err := publish.Open(t.Context(), path, nil, "v1")
	repotest.NoError(t, err)
	if p == nil {
		t.Fatalf("%+v", v.Checks)
	}
	return p
}

// runsOf opens the runs of an experiment's folder.
func runsOf(t testing.TB, folder string) (sides [][]compare.Run) {
	t.Helper()
	for _, side := range "ab" {
		paths := repotest.Must(filepath.Glob(filepath.Join(folder, string(side)+"-*")))(t)
		var runs []compare.Run
		for _, path := range paths {
			r := repotest.Must(compare.Open(path))(t)
			runs = append(runs, r)
		}
		sides = append(sides, runs)
	}
	return sides
}

// scaled makes a run slower by a factor, and by another on side B.
func scaled(a, b float64) func(*flown) {
	return func(f *flown) { f.latency = time.Duration(float64(f.latency) * []float64{a, b}[f.side]) }
}

// steadily is a calibration of a machine that takes so many milliseconds.
func steadily(milliseconds float64) *publish.Calibration {
	c := &publish.Calibration{Version: 1}
	for i := range 9 {
		c.Seconds = append(c.Seconds, milliseconds/1000*(1+float64(i)/10_000))
	}
	return c
}

// TestReproduce has a row for what a second flight can show.
func TestReproduce(t *testing.T) {
	const tell = publish.CannotTell
	all := func(edits ...func(*flown)) func(*flown) {
		return func(f *flown) {
			for _, edit := range edits {
				edit(f)
			}
		}
	}
	onCPU := func(cpu string) func(*flown) { return func(f *flown) { f.cpu = cpu } }
	release := func(r string) func(*flown) { return func(f *flown) { f.release = r } }
	for name, tt := range map[string]struct {
		pairs           int
		was, is         func(*flown)
		published, here *publish.Calibration
		want            [3]string // of the claims
		state, why      string
	}{
		"the same":                    {5, nil, nil, nil, nil, [3]string{publish.Agrees, publish.Agrees, publish.Agrees}, publish.Agrees, ""},
		"slower by a fifth":           {5, nil, scaled(1.2, 1.2), nil, nil, [3]string{publish.Differs, publish.Agrees, publish.Agrees}, publish.Differs, ""},
		"faster by a fifth":           {5, nil, scaled(0.8, 0.8), nil, nil, [3]string{publish.Differs, publish.Agrees, publish.Agrees}, publish.Differs, ""},
		"B alone is slower":           {5, nil, scaled(1, 1.2), nil, nil, [3]string{publish.Agrees, publish.Differs, publish.Agrees}, publish.Differs, ""},
		"a call more":                 {5, nil, func(f *flown) { f.calls = 21 }, nil, nil, [3]string{publish.Agrees, publish.Agrees, publish.Differs}, publish.Differs, ""},
		"too few runs":                {2, nil, nil, nil, nil, [3]string{tell, tell, tell}, tell, "too few runs for an interval: 5 were published, 2 flown"},
		"runs that vary":              {5, nil, func(f *flown) { f.latency = f.latency * time.Duration(2+f.pair*f.pair) / 6 }, nil, nil, [3]string{tell, tell, publish.Agrees}, tell, "vary too much"},
		"another machine":             {5, nil, onCPU("two"), nil, nil, [3]string{tell, publish.Agrees, publish.Agrees}, tell, "no calibration"},
		"a slower machine":            {5, nil, all(onCPU("two"), scaled(1.5, 1.5)), steadily(100), steadily(150), [3]string{publish.Agrees, publish.Agrees, publish.Agrees}, publish.Agrees, ""},
		"a slower machine that waits": {5, nil, onCPU("two"), steadily(100), steadily(150), [3]string{publish.Agrees, publish.Agrees, publish.Agrees}, publish.Agrees, ""},
		"more than its machine":       {5, nil, all(onCPU("two"), scaled(1.9, 1.9)), steadily(100), steadily(150), [3]string{publish.Differs, publish.Agrees, publish.Agrees}, publish.Differs, ""},
		"a calibration of another version": {5, nil, onCPU("two"), steadily(100), &publish.Calibration{Version: 2, Seconds: steadily(100).Seconds},
			[3]string{tell, publish.Agrees, publish.Agrees}, tell, "no calibration"},
		"another release": {5, release("v1.36.3"), release("v1.37.1"), nil, nil, [3]string{tell, tell, tell}, tell, "flown on kubernetes v1.37.1, published on v1.36.3"},
	} {
		t.Run(name, func(t *testing.T) {
			o := publish.Options{Source: experiment(t, 5, tt.was), Claims: []byte(reproducedClaims), Calibration: tt.published, Machine: record.Machine{Cores: 2, CPU: "one", MemoryBytes: 8 << 30, Arch: "amd64"}}
			r := repotest.Must(opened(t, o).Reproduce(runsOf(t, experiment(t, tt.pairs, tt.is)), tt.here))(t)
			var got [3]string
			whys := ""
			for i, c := range r.Claims {
				got[i], whys = c.State, whys+c.Why+"\n"
			}
			if got != tt.want || r.State != tt.state || !strings.Contains(whys, tt.why) {
				t.Errorf("%q (%s), want %q (%s) because of %q: %+v", got, r.State, tt.want, tt.state, tt.why, r.Claims)
			}
		})
	}
}

// TestReproduceZeros holds what is said where a figure is 0 on one side: no ratio tells.
func TestReproduceZeros(t *testing.T) {
	const total, failed = "calls_total", "calls_failed" // 20 and 0 in each published run
	for name, tt := range map[string]struct {
		measure     string
		here        []float64
		state, says string
	}{
		"0 here":                  {total, []float64{0, 0, 0, 0, 0}, publish.Differs, "it is 0 in all runs here, and in none of the published ones"},
		"0 here, four runs":       {total, []float64{0, 0, 0, 0}, publish.Differs, "it is 0 in all runs here"},
		"0 here, too few runs":    {total, []float64{0, 0, 0}, publish.CannotTell, "some figures are 0"},
		"0 in some runs":          {total, []float64{0, 0, 20, 0, 0}, publish.CannotTell, "some figures are 0"},
		"0 nowhere":               {total, []float64{20, 20, 20, 20}, publish.Agrees, ""},
		"0 published":             {failed, []float64{3, 1, 2, 1}, publish.Differs, "it is 0 in all published runs, and in none here"},
		"0 published, too few":    {failed, []float64{3, 1, 2}, publish.CannotTell, "some figures are 0"},
		"0 published, seldom not": {failed, []float64{0, 0, 0, 1}, publish.CannotTell, "some figures are 0"},
		"0 published and here":    {failed, []float64{0, 0, 0, 0}, publish.Agrees, ""},
	} {
		p := opened(t, publish.Options{Source: experiment(t, 5, nil), Claims: []byte("claims: [{says: as said, measure: " + tt.measure + ", of: A, max: 20}]")})
		here := runsOf(t, experiment(t, len(tt.here), nil))
		for i, v := range tt.here {
			r := &here[0][i].Judgement
			r.Measures = maps.Clone(r.Measures)
			m := r.Measures[tt.measure]
			m.Value = v
			r.Measures[tt.measure] = m
		}
		r := repotest.Must(p.Reproduce(here, nil))(t)
		if c := r.Claims[0]; c.State != tt.state || !strings.HasPrefix(c.Why, tt.says) {
			t.Errorf("%s: %q because of %q, want %q because of %q", name, c.State, c.Why, tt.state, tt.says)
		}
	}
}

// TestReproductionRates draws reproductions by chance: of 200 that are alike at most one in
// twenty does not agree, and of 200 of a plane that is slower by a fifth one in ten may go
// unseen. Runs vary by 3 %, as CPU a pod does on a quiet machine (experiments/0001).
func TestReproductionRates(t *testing.T) {
	p := opened(t, publish.Options{Source: experiment(t, 5, nil), Claims: []byte(reproducedClaims)})
	base := runsOf(t, experiment(t, 5, nil))
	rnd := rand.New(rand.NewPCG(1, 2))
	drawn := func(factor float64) [][]compare.Run {
		sides := make([][]compare.Run, 2)
		for i, side := range base {
			for _, r := range side {
				r.Judgement.Measures = cloneMeasures(r.Judgement.Measures, factor*(1+0.03*rnd.NormFloat64()))
				sides[i] = append(sides[i], r)
			}
		}
		return sides
	}
	const draws = 200
	alike, seen := 0, 0
	for range draws {
		same := repotest.Must(p.Reproduce(drawn(1), nil))(t)
		slower := repotest.Must(p.Reproduce(drawn(1.2), nil))(t)
		if same.Claims[0].State == publish.Agrees {
			alike++
		}
		if slower.Claims[0].State == publish.Differs {
			seen++
		}
	}
	t.Logf("of %d alike %d agree, of %d slower ones %d differ", draws, alike, draws, seen)
	if alike < draws*19/20 || seen < draws*9/10 {
		t.Errorf("%d and %d of %d", alike, seen, draws)
	}
}

// TestArms refuses bundles whose runs cannot be flown again by one command.
func TestArms(t *testing.T) {
	for name, tt := range map[string]struct {
		claims string
		edit   func(*flown)
		want   string
	}{
		"two sides": {reproducedClaims, nil, ""},
		"no claim":  {"claims: []\n", nil, "claims nothing"},
	} {
		p := opened(t, publish.Options{Source: experiment(t, 5, tt.edit), Claims: []byte(tt.claims)})
		arms, err := p.Arms()
		switch {
		case tt.want == "":
			if err != nil || len(arms) != 2 || arms[1].Runs == 0 || arms[0].Parameters["limiter"] == arms[1].Parameters["limiter"] {
				t.Errorf("%s: %+v, %v", name, arms, err)
			}
		case !errors.Is(err, publish.ErrReproduce) || !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// cloneMeasures copies measures, those of time scaled.
func cloneMeasures(from map[string]slo.Measure, factor float64) map[string]slo.Measure {
	out := map[string]slo.Measure{}
	for key, m := range from {
		if m.Unit == "seconds" {
			m.Value *= factor
		}
		out[key] = m
	}
	return out
}

// TestReproducedBundle adds the statement of a second flight: the bundle still holds, and
// whose word counts is whose key is trusted, not the author's.
func TestReproducedBundle(t *testing.T) {
	author, other := signer(t, "author"), signer(t, "somebody")
	// Five pairs over ten minutes each with an A/A beside them keep all run rules.
	o := publish.Options{Source: experiment(t, 5, nil), Claims: []byte(reproducedClaims), Key: author, MadeBy: "v1"}
	path := filepath.Join(t.TempDir(), "x.wtb")
	repotest.NoError(t, os.WriteFile(path, made(t, o), 0o600))
	p, _, err := publish.Open(t.Context(), path, nil, "v1")
	repotest.NoError(t, err)
	with := func(path string, factor float64, key ssh.Signer) []byte {
		r := repotest.Must(p.Reproduce(runsOf(t, experiment(t, 5, scaled(factor, factor))), nil))(t)
		var out bytes.Buffer
		repotest.NoError(t, p.AddReproduction(&out, path, r, key))
		return out.Bytes()
	}
	said := func(v *publish.Verification) (out []string) {
		for _, c := range v.Checks {
			if c.Name == "reproduced" {
				out = append(out, c.State+": "+c.Why)
			}
		}
		return out
	}
	once := with(path, 1, other)
	repotest.NoError(t, os.WriteFile(path, once, 0o600))
	twice := with(path, 1.3, author)
	v := verify(t, twice, "v1", author, other)
	if got := strings.Join(said(v), "\n"); v.State != publish.Holds || !strings.Contains(got, "3 claims agree\n") || !strings.Contains(got, "1 differs: Calls end within 11 ms; by the author's own key") {
		t.Errorf("%s: %s", v.State, got)
	}
	if v := verify(t, once, "v1", author); v.State != publish.Holds || !strings.HasSuffix(said(v)[0], "no key that you trust") || len(v.Reproduced) > 0 {
		t.Errorf("%s: %v", v.State, said(v))
	}
	// Of a publishable result the level says it.
	sound := func(f *flown) { f.measured, f.calls = true, 80 }
	control := experiment(t, 5, func(f *flown) { f.measured, f.latency, f.same = true, 1e7, true; f.order += 10 })
	o = publish.Options{Source: experiment(t, 5, sound), Control: control, Claims: []byte("claims: [{says: fast, measure: call_latency_p50_seconds_fill, of: A, max: 11ms}]"), Key: author, MadeBy: "v1"}
	repotest.NoError(t, os.WriteFile(path, made(t, o), 0o600))
	p, _, err = publish.Open(t.Context(), path, nil, "v1")
	repotest.NoError(t, err)
	for factor, want := range map[float64]string{1: "Level: reproduced by " + ssh.FingerprintSHA256(other.PublicKey()), 1.3: "Level: publishable."} {
		if v := verify(t, with(path, factor, other), "v1", author, other); v.State != publish.Holds || !strings.HasPrefix(v.Level(), want) {
			t.Errorf("%s: %s, want %s", v.State, v.Level(), want)
		}
	}
	if v := verify(t, with(path, 1, author), "v1", author); !strings.HasPrefix(v.Level(), "Level: publishable.") {
		t.Errorf("reproduced by its author: %s", v.Level())
	}
	// A statement about another bundle is none about this one.
	foreign := made(t, publish.Options{Source: experiment(t, 5, scaled(1.1, 1.1)), Claims: []byte(strings.ReplaceAll(reproducedClaims, "11ms", "20ms")), Key: author, MadeBy: "v1"})
	repotest.NoError(t, os.WriteFile(path, foreign, 0o600))
	moved := with(path, 1, other)
	if v := verify(t, moved, "v1", author, other); v.State != publish.Fails || !strings.Contains(said(v)[0], "another bundle") {
		t.Errorf("%s: %v", v.State, said(v))
	}
}

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/machine/calibrate"
	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// againFlights is a stand-in for flight.Run that writes made-up runs of this latency.
type againFlights struct {
	latency time.Duration
	flown   []string
	noExec  bool
	stop    int // the flight, from 1, after which a person stops; 0: none
	cancel  func()
}

func (f *againFlights) fly(_ context.Context, o flight.Options) (flight.Result, error) {
	f.flown = append(f.flown, fmt.Sprintf("%s %s %d", filepath.Base(o.Out), o.Set["limiter"], *o.Seed))
	f.noExec = o.NoExec
	if string(o.Text) != sideScenario {
		return flight.Result{}, fmt.Errorf("flown is %q", o.Text)
	}
	if len(f.flown) == f.stop {
		f.cancel()
	}
	s := side{limiter: o.Set["limiter"], seed: *o.Seed, cores: 2, latency: f.latency + time.Duration(len(f.flown))*1000, whole: true}
	return flight.Result{Dir: record.Dir(o.Out)}, s.write(o.Out)
}

// publishSides makes a bundle of five runs, and returns its path and that of the key.
func publishSides(t *testing.T, claims string) (bundle, key string) {
	t.Helper()
	dir := t.TempDir()
	repotest.NoError(t, makePublished(dir))
	file := filepath.Join(dir, "claims.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(claims), 0o600))
	bundle, key = filepath.Join(dir, "x.wtb"), filepath.Join(dir, "key")
	env := &environment{stdout: &strings.Builder{}, stderr: &strings.Builder{}}
	root := rootVerb(env)
	root.SetArgs([]string{"publish", filepath.Join(dir, "sides"), "--claims", file, "--key", key, "-o", bundle})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s%s", err, env.stdout, env.stderr)
	}
	return bundle, key
}

const sideClaims = `claims:
- {says: Calls end within 11 ms, measure: call_latency_p50_seconds_fill, max: 11ms}
`

// again flies a bundle again by made-up runs.
func again(ctx context.Context, t *testing.T, x *reproducing, f *againFlights) (string, error) {
	t.Helper()
	out, told := &strings.Builder{}, &strings.Builder{}
	x.env, x.fly = &environment{stdout: out, stderr: told}, f.fly
	err := x.reproduce(ctx)
	return out.String() + told.String(), err
}

// TestReproduceVerb flies a bundle again: as fast, slower, stopped and resumed.
func TestReproduceVerb(t *testing.T) {
	bundle, _ := publishSides(t, sideClaims)
	folder := t.TempDir()
	same := &againFlights{latency: 10 * time.Millisecond}
	said, err := again(t.Context(), t, &reproducing{bundle: bundle, out: filepath.Join(folder, "same"), noExec: true}, same)
	if err != nil && err.Error() != "verdict pass" {
		t.Errorf("%v\n%s", err, said)
	}
	if len(same.flown) != 5 || same.flown[0] != "a-01 none 1" || !same.noExec {
		t.Errorf("flown %q, programs refused: %t", same.flown, same.noExec)
	}
	for _, want := range []string{"agrees: Calls end within 11 ms\n  call_latency_p50_seconds_fill: 10 ms published, ", "here\n  ratio ", "1 claim: 1 agree, 0 differ", "the claim holds here, too"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	slower := &againFlights{latency: 12 * time.Millisecond}
	if said, err := again(t.Context(), t, &reproducing{bundle: bundle, out: filepath.Join(folder, "slower")}, slower); err == nil || err.Error() != "verdict fail" || !strings.Contains(said, "the claim does not hold here") {
		t.Errorf("%v\n%s", err, said)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := &againFlights{latency: 10 * time.Millisecond, stop: 2, cancel: cancel}
	out := filepath.Join(folder, "stopped")
	if said, err := again(ctx, t, &reproducing{bundle: bundle, out: out}, stopped); err == nil || err.Error() != "verdict unknown" || !strings.Contains(said, "the same command goes on from here") {
		t.Errorf("%v\n%s", err, said)
	}
	rest := &againFlights{latency: 10 * time.Millisecond}
	if said, err := again(t.Context(), t, &reproducing{bundle: bundle, out: out}, rest); len(rest.flown) != 3 {
		t.Errorf("after a stop %q were flown: %v\n%s", rest.flown, err, said)
	}
}

// TestCalibrated leaves beside a run how fast the machine was before and after it, and
// nothing beside one that was not flown.
func TestCalibrated(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		stop bool
		want int
	}{{name: "flown", want: 2 * calibrate.BesideRun}, {name: "not flown", err: flight.ErrBoot}, {name: "stopped", stop: true}} {
		dir := record.Dir(t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		_, err := calibrated(func(context.Context, flight.Options) (flight.Result, error) {
			if c.stop {
				cancel()
			}
			return flight.Result{Dir: dir}, c.err
		})(ctx, flight.Options{})
		cancel()
		got := 0
		if made := publish.CalibrationOf([]string{string(dir)}); made != nil {
			var all publish.Calibration
			raw, err := dir.Read(publish.CalibrationFile)
			repotest.NoError(t, errors.Join(err, json.Unmarshal(raw, &all)))
			got = len(all.Seconds)
		}
		if !errors.Is(err, c.err) || got != c.want {
			t.Errorf("%s: %v, %d repeats, want %d", c.name, err, got, c.want)
		}
	}
}

// TestReproductionIsAdded signs a result into a copy of the bundle, which still holds.
func TestReproductionIsAdded(t *testing.T) {
	bundle, _ := publishSides(t, sideClaims)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	repotest.NoError(t, err)
	other := repotest.Must(ssh.NewSignerFromKey(private))(t)
	added := filepath.Join(t.TempDir(), "added.wtb")
	x := &reproducing{bundle: bundle, out: filepath.Join(t.TempDir(), "runs"), add: added, key: other}
	if said, err := again(t.Context(), t, x, &againFlights{latency: 10 * time.Millisecond}); err != nil && err.Error() != "verdict pass" {
		t.Fatalf("%v\n%s", err, said)
	}
	v := repotest.Must(publish.Verify(t.Context(), added, nil, version))(t)
	found := ""
	for _, c := range v.Checks {
		if c.Name == "reproduced" {
			found = c.State + ": " + c.Why
		}
	}
	if v.State == publish.Fails || !strings.HasPrefix(found, "holds: flown again by SHA256:") || !strings.Contains(found, "1 claim agrees") {
		t.Errorf("%s; %s; %+v", v.State, found, v.Checks)
	}
}

// TestReproduceRefuses has what cannot be flown again.
func TestReproduceRefuses(t *testing.T) {
	bundle, _ := publishSides(t, sideClaims)
	silent, _ := publishSides(t, "claims: []\n")
	damaged := filepath.Join(t.TempDir(), "damaged.wtb")
	raw := repotest.Must(os.ReadFile(bundle))(t)
	raw[len(raw)/2] ^= 1
	other := filepath.Join(t.TempDir(), "other.yaml")
	for path, content := range map[string][]byte{damaged: raw, other: []byte("scenario: other\n")} {
		repotest.NoError(t, os.WriteFile(path, content, 0o600))
	}
	for name, tt := range map[string]struct {
		x    reproducing
		want string
	}{
		"claims nothing":   {reproducing{bundle: silent}, "the bundle claims nothing"},
		"damaged":          {reproducing{bundle: damaged}, "Nothing was run."},
		"another scenario": {reproducing{bundle: bundle, file: other}, "its text is not that of the bundle"},
		"a foreign signer": {reproducing{bundle: bundle, signers: []string{"SHA256:none"}}, "Nothing was run."},
		"not a bundle":     {reproducing{bundle: other}, "Nothing was run."},
		"less than no run": {reproducing{bundle: bundle, repeats: -1}, "--repeats -1: want at least 1"},
		"no file":          {reproducing{bundle: other + ".wtb"}, "no such file"},
	} {
		tt.x.out = filepath.Join(t.TempDir(), "runs")
		f := &againFlights{}
		said, err := again(t.Context(), t, &tt.x, f)
		if err == nil || len(f.flown) > 0 || !strings.Contains(said+err.Error(), tt.want) {
			t.Errorf("%s: %v, flown %q\n%s", name, err, f.flown, said)
		}
	}
}

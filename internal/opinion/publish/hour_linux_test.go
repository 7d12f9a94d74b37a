package publish_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// BenchmarkVerify verifies a bundle of a run of one hour: 36,000 pods on 1,000 nodes,
// whose leases are most of the calls. peak-MiB is that of the whole process, which has made
// the run before: run it alone with -benchtime 1x.
func BenchmarkVerify(b *testing.B) {
	dir, m, err := reporttest.Write(b.TempDir(), reporttest.Shape{Nodes: 1000, Pods: 36_000, Asked: 10, Rate: 100})
	repotest.NoError(b, err)
	m.Parameters = nil // those of an invented run are not its scenario's, which has no steps
	repotest.NoError(b, dir.Write(record.ScenarioFile, []byte("scenario: density\nsteps:\n- {pause: 1s}\n")))
	repotest.NoError(b, dir.WriteJSON(record.ManifestFile, m))
	key := signer(b, "author")
	var out bytes.Buffer
	repotest.Must(publish.Make(b.Context(), &out, publish.Options{Source: string(dir), Key: key, MadeBy: "v1"}))(b)
	path := filepath.Join(b.TempDir(), "x.wtb")
	repotest.NoError(b, os.WriteFile(path, out.Bytes(), 0o600))
	var before, after syscall.Rusage
	repotest.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	var seconds float64
	for b.Loop() {
		v := repotest.Must(publish.Verify(b.Context(), path, []string{ssh.FingerprintSHA256(key.PublicKey())}, "v1"))(b)
		if v.State != publish.Holds {
			b.Fatalf("%+v", v.Checks)
		}
		for _, r := range v.Results.Runs {
			seconds = r.Seconds
		}
	}
	repotest.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	cpu := func(r syscall.Rusage) float64 {
		return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
	}
	b.ReportMetric((cpu(after)-cpu(before))/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(after.Maxrss)/1024, "peak-MiB")
	b.ReportMetric(float64(out.Len())/(1<<20), "bundle-MiB")
	b.ReportMetric(seconds, "run-s")
}

package publish_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/archive"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/seal"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/recordtest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// forger alters a bundle and puts it together again.
type forger struct {
	t      testing.TB
	whole  []byte
	files  map[string][]byte // of the bundle as it was made
	names  []string
	author ssh.Signer
	other  ssh.Signer
	sum    string // of the executable of the runs
}

// expand and compress undo and do what a bundle does to records and lists of components.
func expand(t testing.TB, raw []byte) []byte {
	t.Helper()
	z := repotest.Must(gzip.NewReader(bytes.NewReader(raw)))(t)
	return repotest.Must(io.ReadAll(z))(t)
}

func compress(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := repotest.Must(gzip.NewWriterLevel(&out, gzip.BestCompression))(t)
	repotest.Must(z.Write(raw))(t)
	repotest.NoError(t, z.Close())
	return out.Bytes()
}

type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

// repack makes a bundle of files. how says what the forger makes right again: nothing, the
// digests, the digests and the statement without a signature, or all of it with a key.
func (f *forger) repack(files map[string][]byte, how int, key ssh.Signer) []byte {
	f.t.Helper()
	files = maps.Clone(files)
	digests := map[string]archive.Digest{}
	for name, raw := range files {
		if !slices.Contains([]string{publish.SumsFile, publish.StatementFile, publish.EnvelopeFile}, name) {
			digests[name] = sha256.Sum256(raw)
		}
	}
	sums := archive.Sums(slices.Sorted(maps.Keys(digests)), digests)
	if how > 0 {
		files[publish.SumsFile] = []byte(sums)
	}
	if envelope, there := files[publish.EnvelopeFile]; there && how > 1 {
		statement, _, err := seal.Open(envelope)
		repotest.NoError(f.t, err)
		s := repotest.Must(seal.Decode(statement))(f.t)
		root := archive.Root(sums)
		s.Subject[0].Digest["sha256"] = fmt.Sprintf("%x", root)
		statement = repotest.Must(s.Encode())(f.t)
		if how == 2 {
			delete(files, publish.EnvelopeFile)
			files[publish.StatementFile] = statement
		} else {
			files[publish.EnvelopeFile] = repotest.Must(seal.Sign(statement, key))(f.t)
		}
	}
	var out bytes.Buffer
	repotest.NoError(f.t, archive.Write(&out, slices.Sorted(maps.Keys(files)), func(name string) (io.ReadSeekCloser, error) {
		return inMemory{bytes.NewReader(files[name])}, nil
	}))
	return out.Bytes()
}

// filesOf are the files of a bundle.
func filesOf(t testing.TB, bundle []byte) map[string][]byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.wtb")
	repotest.NoError(t, os.WriteFile(path, bundle, 0o600))
	a := repotest.Must(archive.Open(path))(t)
	defer a.Close()
	files := map[string][]byte{}
	for name := range a.Digests() {
		files[name] = repotest.Must(a.Read(name))(t)
	}
	return files
}

// alter returns a bundle with one thing changed, and what that is.
func (f *forger) alter(rnd *rand.Rand) (raw []byte, what string) {
	files := maps.Clone(f.files)
	pick := func(match func(name string) bool) string {
		names := slices.DeleteFunc(slices.Clone(f.names), func(n string) bool { return !match(n) })
		return names[rnd.IntN(len(names))]
	}
	replace := func(name, was, now string) {
		if !bytes.Contains(files[name], []byte(was)) {
			f.t.Fatalf("%s has no %s", name, was)
		}
		files[name] = bytes.Replace(files[name], []byte(was), []byte(now), 1)
	}
	how := []int{0, 0, 0, 1, 1, 1, 2, 3, 3, 3}[rnd.IntN(10)]
	switch rnd.IntN(10) {
	case 0:
		return damage(f.whole, rnd), "a byte"
	case 1:
		name := pick(func(n string) bool { return strings.HasSuffix(n, ".wt.gz") })
		damaged, _ := recordtest.Damage(expand(f.t, files[name]), rnd)
		files[name] = compress(f.t, damaged)
		return f.repack(files, how, f.other), "a record"
	case 2:
		run := "runs/" + []string{"a-01", "b-01"}[rnd.IntN(2)]
		maps.DeleteFunc(files, func(n string, _ []byte) bool { return strings.HasPrefix(n, run) })
		if rnd.IntN(2) == 0 {
			replace(publish.IndexFile, `"`+run+`"`, "")
		}
		return f.repack(files, how, f.other), "a run left out"
	case 3:
		replace(publish.ClaimsFile, []string{"11ms", "50%", "of: A", "Calls"}[rnd.IntN(4)], []string{"9ms", "99%", "of: B", "All calls"}[rnd.IntN(4)])
		return f.repack(files, how, f.other), "a claim"
	case 4:
		name := pick(func(n string) bool { return strings.HasSuffix(n, record.ManifestFile) })
		replace(name, []string{`"durability":"fsync"`, `"cores":2`, `"limiter":`, `"seed":1`}[rnd.IntN(4)], []string{`"durability":"memory"`, `"cores":64`, `"limiter":1`, `"seed":2`}[rnd.IntN(4)])
		return f.repack(files, how, f.other), "a setting"
	case 5:
		return f.repack(files, 3, f.other), "a key"
	case 6:
		files[publish.EnvelopeFile] = damage(files[publish.EnvelopeFile], rnd)
		return f.repack(files, 0, nil), "a signature"
	case 7:
		delete(files, pick(func(n string) bool { return true }))
		return f.repack(files, rnd.IntN(2), nil), "a file left out"
	case 8:
		name := pick(func(n string) bool { return strings.HasPrefix(n, "components/") })
		list := expand(f.t, files[name])
		switch rnd.IntN(3) {
		case 0: // by the author: the list of another executable
			files[name] = compress(f.t, bytes.Replace(list, []byte(f.sum), []byte(strings.Repeat("0", len(f.sum))), 1))
			return f.repack(files, 3, f.author), "components"
		case 1: // by the author: no list, and no reason
			delete(files, name)
			return f.repack(files, 3, f.author), "components"
		}
		// By somebody else: another module.
		files[name] = compress(f.t, bytes.Replace(list, []byte("pkg:golang/"), []byte("pkg:golang/example.com/"), 1+rnd.IntN(9)))
		return f.repack(files, how, f.other), "components"
	}
	// The author himself says something else than the records do.
	name := pick(func(n string) bool {
		return slices.Contains([]string{publish.ResultsFile, publish.ReportFile, publish.ComparisonFile, record.VerdictFile}, filepath.Base(n))
	})
	files[name] = damage(files[name], rnd)
	return f.repack(files, 3, f.author), "a result"
}

// damage changes a byte, takes some away or puts some in.
func damage(raw []byte, rnd *rand.Rand) []byte {
	out := slices.Clone(raw)
	at := rnd.IntN(len(out))
	switch rnd.IntN(4) {
	case 0:
		out[at] ^= 1 << rnd.IntN(8)
	case 1:
		out[at] += byte(1 + rnd.IntN(255))
	case 2:
		out = slices.Delete(out, at, min(len(out), at+1+rnd.IntN(40)))
	default:
		out = slices.Insert(out, at, byte(rnd.IntN(256)))
	}
	return out
}

// TestAltered verifies bundles that were altered after they were made: none is accepted.
func TestAltered(t *testing.T) {
	f := &forger{t: t, author: signer(t, "author"), other: signer(t, "somebody")}
	var path string
	path, f.sum = built(t)
	f.whole = made(t, publish.Options{
		Source: experiment(t, 1, func(x *flown) { x.sum = f.sum }), Key: f.author, MadeBy: "v1", FindProgram: func(string, record.Manifest) string { return path },
		Claims: []byte("claims: [{says: Calls are quick, measure: call_latency_p50_seconds_fill, of: A, max: 11ms, confidence: 50%}]\n"),
	})
	if v := verify(t, f.whole, "v1", f.author); v.State != publish.Holds {
		t.Fatalf("the bundle itself: %+v", v.Checks)
	}
	path = filepath.Join(t.TempDir(), "x.wtb")
	f.files = filesOf(t, f.whole)
	f.names = slices.Sorted(maps.Keys(f.files))
	if again := f.repack(f.files, 3, f.author); !bytes.Equal(again, f.whole) {
		t.Fatal("the forger cannot put the bundle together as it was")
	}
	newer := maps.Clone(f.files)
	newer[publish.IndexFile] = bytes.Replace(newer[publish.IndexFile], []byte(`"format": 2`), []byte(`"format": 3`), 1)
	if v := verify(t, f.repack(newer, 3, f.author), "v1", f.author); v.State != publish.Unknown || !strings.Contains(v.Checks[len(v.Checks)-1].Why, "format 3") {
		t.Errorf("a newer format: %+v", v.Checks)
	}
	seed := repotest.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 42))
	trust := []string{ssh.FingerprintSHA256(f.author.PublicKey())}
	tried, states := map[string]int{}, map[string]int{}
	times := 3000
	if testing.Short() {
		times = 300
	}
	for n := 0; n < times; {
		raw, what := f.alter(rnd)
		if bytes.Equal(raw, f.whole) {
			continue
		}
		n++
		tried[what]++
		repotest.NoError(t, os.WriteFile(path, raw, 0o600))
		v, err := publish.Verify(t.Context(), path, trust, "v1")
		switch {
		case err != nil:
			t.Errorf("%d, %s: %v", n, what, err)
		case v.State == publish.Holds:
			t.Errorf("%d: %s: accepted", n, what)
		default:
			states[v.State]++
		}
	}
	t.Logf("seed %d: %v, %v", seed, tried, states)
	if len(tried) != 10 {
		t.Errorf("not every kind was tried: %v", tried)
	}
}

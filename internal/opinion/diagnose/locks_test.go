package diagnose

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// The lock that was fought for is named, from a profile as the Go runtime writes it.
func TestLocksAreNamed(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	fightForALock()
	var b bytes.Buffer
	repotest.NoError(t, pprof.Lookup("block").WriteTo(&b, 0))
	dir := t.TempDir()
	keep := func(name string, raw []byte) {
		repotest.NoError(t, os.MkdirAll(filepath.Join(dir, profiles), 0o700))
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, profiles, name), raw, 0o600))
	}
	keep("kube-scheduler.block.pb.gz", b.Bytes())
	c, ok, err := readContention(record.Dir(dir), "kube-scheduler")
	if err != nil || !ok || !strings.Contains(c.Where, "fightForALock") || c.Share < 0.5 || c.Seconds < 0.02 {
		t.Errorf("%+v, %v, %v", c, ok, err)
	}
	if _, ok, err := readContention(record.Dir(dir), "etcd"); ok || err != nil {
		t.Errorf("no profile: %v, %v", ok, err)
	}
	keep("etcd.block.pb.gz", []byte("damaged"))
	if _, ok, err := readContention(record.Dir(dir), "etcd"); ok || err == nil {
		t.Errorf("a damaged profile: %v, %v", ok, err)
	}
}

// A profile of some kilobytes that unpacks to gigabytes is not unpacked, and a
// component's name leads nowhere else.
func TestProfilesOfStrangers(t *testing.T) {
	dir := record.Dir(t.TempDir())
	if _, err := dir.Folder(profiles); err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	out := repotest.Must(gzip.NewWriterLevel(&bomb, gzip.BestCompression))(t)
	for range 4 {
		if _, err := out.Write(make([]byte, maxUnpacked/3)); err != nil {
			t.Fatal(err)
		}
	}
	repotest.NoError(t, out.Close())
	repotest.NoError(t, dir.Write(profiles+"/etcd.block.pb.gz", bomb.Bytes()))
	if _, ok, err := readContention(dir, "etcd"); ok || err == nil || !strings.Contains(err.Error(), "it unpacks to more than 16 MiB") {
		t.Errorf("%v, %v", ok, err)
	}
	for _, name := range []string{"../etcd", "..", "a/b", "/etc/passwd"} {
		if _, ok, err := readContention(dir, name); ok || err == nil || !strings.Contains(err.Error(), "is no component's name") {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

func fightForALock() {
	var lock sync.Mutex
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			lock.Lock()
			time.Sleep(10 * time.Millisecond) // what is measured
			lock.Unlock()
		})
	}
	wait.Wait()
}

// FuzzLocks: whatever a profile holds, reading it ends with a share that is one.
func FuzzLocks(f *testing.F) {
	var b bytes.Buffer
	empty := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, PeriodType: &profile.ValueType{}}
	repotest.NoError(f, empty.Write(&b))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := profile.ParseData(raw)
		if err != nil {
			return
		}
		var c Contention
		if c.readProfile(p) && (c.Where == "" && c.Share > 0 || c.Share > 1) {
			t.Errorf("%+v", c)
		}
	})
}

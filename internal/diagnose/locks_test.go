package diagnose

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// The lock that was fought for is named, from a profile as the Go runtime writes it.
func TestLocksAreNamed(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	fightForALock()
	var b bytes.Buffer
	if err := pprof.Lookup("block").WriteTo(&b, 0); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	keep := func(name string, raw []byte) {
		if err := os.MkdirAll(filepath.Join(dir, profiles), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, profiles, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep("kube-scheduler.block.pb.gz", b.Bytes())
	c, ok, err := contended(dir, "kube-scheduler")
	if err != nil || !ok || !strings.Contains(c.Where, "fightForALock") || c.Share < 0.5 || c.Seconds < 0.02 {
		t.Errorf("%+v, %v, %v", c, ok, err)
	}
	if _, ok, err := contended(dir, "etcd"); ok || err != nil {
		t.Errorf("no profile: %v, %v", ok, err)
	}
	keep("etcd.block.pb.gz", []byte("damaged"))
	if _, ok, err := contended(dir, "etcd"); ok || err == nil {
		t.Errorf("a damaged profile: %v, %v", ok, err)
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
	if err := empty.Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := profile.ParseData(raw)
		if err != nil {
			return
		}
		var c Contention
		if c.read(p) && (c.Where == "" && c.Share > 0 || c.Share > 1) {
			t.Errorf("%+v", c)
		}
	})
}

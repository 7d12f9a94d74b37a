package diagnose

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/windtunnel/windtunnel/internal/record"
)

// profiles is where a run directory has them: COMPONENT.KIND.pb.gz.
const profiles = "profiles"

// readContention reads which locks a component's goroutines waited for, from the
// profiles of a run directory; not ok where there are none of locks.
func readContention(dir record.Dir, component string) (c Contention, ok bool, err error) {
	if component != filepath.Base(component) || component == ".." {
		return c, false, fmt.Errorf("read profile: %q is no component's name", component)
	}
	c.File = profiles + "/" + component + ".block.pb.gz"
	raw, err := dir.Read(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, fmt.Errorf("read profile: %w", err)
	}
	if raw, err = unpackProfile(raw); err != nil {
		return c, false, fmt.Errorf("read profile %s: %w", c.File, err)
	}
	p, err := profile.ParseData(raw)
	if err != nil {
		return c, false, fmt.Errorf("read profile %s: %w", c.File, err)
	}
	ok = c.readProfile(p)
	return c, ok, nil
}

// maxUnpacked is how many bytes a profile may have: some ten times what a
// kube-apiserver's has after a long run.
const maxUnpacked = 16 << 20

// unpackProfile returns what a gzip file holds: a small one may hold a great deal.
func unpackProfile(raw []byte) ([]byte, error) {
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw, nil
	}
	in, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(in, maxUnpacked+1))
	if err == nil && len(out) > maxUnpacked {
		err = fmt.Errorf("it unpacks to more than %d MiB", maxUnpacked>>20)
	}
	return out, err
}

// readProfile adds up the waiting of each function. A profile of blocking has waits for
// channels too, most of which are goroutines that have nothing to do; they are
// left out.
func (c *Contention) readProfile(p *profile.Profile) bool {
	nanoseconds := -1
	for i, t := range p.SampleType {
		if t.Type == "delay" && t.Unit == "nanoseconds" {
			nanoseconds = i
		}
	}
	if nanoseconds < 0 {
		return false
	}
	waited := map[string]float64{}
	var total, most float64
	for _, s := range p.Sample {
		if nanoseconds >= len(s.Value) {
			return false
		}
		v := float64(s.Value[nanoseconds])
		where, ok := findLocker(listFunctions(s))
		if !ok || v <= 0 {
			continue
		}
		total += v
		waited[where] += v
		if sum := waited[where]; sum > most || sum == most && where < c.Where {
			most, c.Where = sum, where
		}
	}
	if total == 0 {
		return false
	}
	c.Seconds, c.Share = total/1e9, most/total
	return true
}

// listFunctions returns those of a stack, the innermost first.
func listFunctions(s *profile.Sample) (out []string) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				out = append(out, line.Function.Name)
			}
		}
	}
	return out
}

// findLocker returns the function that wanted a lock: the first one outside package
// sync, of a stack that went through a lock's method.
func findLocker(stack []string) (string, bool) {
	locked := false
	for _, f := range stack {
		switch {
		case strings.HasPrefix(f, "sync.(*Mutex)."), strings.HasPrefix(f, "sync.(*RWMutex)."), strings.HasPrefix(f, "internal/sync.(*Mutex)."):
			locked = true
		case strings.HasPrefix(f, "sync."), strings.HasPrefix(f, "runtime."), strings.HasPrefix(f, "internal/sync."):
		default:
			return f, locked
		}
	}
	return "", false
}

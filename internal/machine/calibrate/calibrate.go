// Package calibrate measures how fast a machine is at what control planes do, so that times
// of two machines can be compared as a ratio.
//
// The work is fixed: objects are decoded from JSON and encoded, as an API server does, and
// digested. Its unit is CPU time, which neighbors change less than wall time. Nothing here
// is about disks or networks.
package calibrate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// Version is that of the work. Figures of two versions cannot be compared.
const Version = 1

// Repeats is how often the work is done where that stands for a machine: enough for an
// interval of a ratio. BesideRun is how often before and after a run, whose other runs have
// their own: enough for a median that is not one disturbed repeat.
const (
	Repeats   = 9
	BesideRun = 3
)

// ErrSystem says that threads have no clock of their CPU time here.
var ErrSystem = errors.New("calibrate: this system does not tell the CPU time of a thread")

// objects is how many objects one repeat handles: about a tenth of a second on a machine of
// 2024.
const objects = 3000

// Measure does the work so often and returns the seconds of CPU of each repeat. A first
// repeat, which warms caches up, is left out.
func Measure(ctx context.Context, repeats int) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	text := sample()
	var out []float64
	for n := range repeats + 1 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		begin, err := threadSeconds()
		if err != nil {
			return nil, err
		}
		if err := work(text); err != nil {
			return nil, err
		}
		end, err := threadSeconds()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			out = append(out, end-begin)
		}
	}
	return out, nil
}

// sample is an object of some 2 KB with maps, lists and strings.
func sample() []byte {
	labels, containers := map[string]string{}, []any{}
	for i := range 16 {
		labels[fmt.Sprintf("example.com/label-%d", i)] = strings.Repeat("v", 16+i)
	}
	for i := range 4 {
		containers = append(containers, map[string]any{"name": fmt.Sprintf("c-%d", i), "image": "example.com/image:1", "ports": []any{map[string]any{"containerPort": 8000 + i}}, "args": []string{"--one=1", "--two=2"}})
	}
	raw, _ := json.Marshal(map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "p", "labels": labels}, "spec": map[string]any{"containers": containers}}) // of maps, lists and strings: cannot fail
	return raw
}

func work(text []byte) error {
	sum := sha256.Sum256(text)
	for range objects {
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			return fmt.Errorf("calibrate: %w", err)
		}
		object["previous"] = sum[:]
		raw, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("calibrate: %w", err)
		}
		sum = sha256.Sum256(raw)
	}
	return nil
}

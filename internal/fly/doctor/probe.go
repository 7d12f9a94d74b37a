package doctor

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/kernel"
)

// How often each thing is tried.
const (
	syncTries  = 50
	sleepTries = 100
	readings   = 10000
)

// lookAt measures a folder that something will be written to.
func lookAt(folder string) Disk {
	d := Disk{Path: folder}
	space, err := kernel.Disk(folder)
	if err != nil {
		d.Fault = err.Error()
		return d
	}
	d.Free, d.InMemory = space.Free, space.InMemory
	if d.Sync, err = timeSync(folder); err != nil {
		d.Fault = err.Error()
	}
	return d
}

// timeSync appends to a file as etcd does to its log, and syncs it each time.
func timeSync(folder string) (out Timing, err error) {
	file, err := os.CreateTemp(folder, ".windtunnel-doctor-")
	if err != nil {
		return Timing{}, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, 4096)
	watch := clock.Start()
	var took []time.Duration
	for range syncTries {
		before := watch.Now()
		if _, err := file.Write(block); err != nil {
			return Timing{}, err
		}
		if err := kernel.SyncData(file); err != nil {
			return Timing{}, err
		}
		took = append(took, watch.Now().Sub(before))
	}
	return newTiming(took), nil
}

// timeSleeps says by how much sleeps are too long at this moment.
func timeSleeps() Timing {
	watch := clock.Start()
	var over []time.Duration
	for range sleepTries {
		before := watch.Now()
		time.Sleep(time.Millisecond)
		over = append(over, watch.Now().Sub(before)-time.Millisecond)
	}
	return newTiming(over)
}

// timeClock says how long a reading of the clock takes.
func timeClock() time.Duration {
	watch := clock.Start()
	for range readings {
		watch.Now()
	}
	return time.Duration(watch.Now()) / readings
}

func newTiming(took []time.Duration) Timing {
	slices.Sort(took)
	return Timing{Tries: len(took), P50: took[len(took)/2], P99: took[len(took)*99/100]}
}

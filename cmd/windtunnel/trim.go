package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// trimEvery is how often a program that stays trims itself: each page that is
// needed brings its neighbours along, which add up. Reading the hot ones again
// takes a fraction of a millisecond.
const trimEvery = 10 * time.Second

// trimPeriodically trims now and then until ctx ends; what it returns waits for that.
func trimPeriodically(ctx context.Context) (wait func()) {
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(trimEvery)
		defer tick.Stop()
		for {
			trimExecutablePages()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return done.Wait
}

// trimExecutablePages gives back the pages of this executable that were only read while the
// program started: four fifths of it is the control plane, whose start-up code
// every verb runs through once. What is needed again comes from the page cache.
// It is a favour to the machine: nothing depends on it, so that errors are of no
// interest.
func trimExecutablePages() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer smaps.Close()
	var from, to uintptr // of a mapping of the executable that is not writable; 0 for others
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 6 && strings.Contains(fields[0], "-"):
			from, to = 0, 0
			if fields[5] == self && !strings.Contains(fields[1], "w") {
				_, _ = fmt.Sscanf(fields[0], "%x-%x", &from, &to)
			}
		case len(fields) == 5 && strings.Contains(fields[0], "-"):
			from, to = 0, 0 // a mapping without a name
		case from != 0 && len(fields) > 1 && fields[0] == "Anonymous:" && fields[1] == "0":
			// What was written to before it was made read-only would be lost.
			kernel.DropPages(from, to)
		}
	}
}

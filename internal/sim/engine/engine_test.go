package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/engine"
)

// job is a call of the drivers in these tests.
type job struct {
	engine.Call[job]
	name  string
	stage string
	of    *thing
}

// thing is a simulated object.
type thing struct {
	engine.Object[job]
	name string
}

// driver is an engine without a server: the test answers its calls.
type driver struct {
	engine.Engine[job]
	now    clock.Time
	things map[string]*thing
	sent   []*job
	freed  []string
	relist watch.Relist[string]
}

func newDriver(most, reserved int, classes ...int) *driver {
	d := &driver{things: map[string]*thing{}}
	d.Max, d.Reserved = most, reserved
	for _, n := range classes {
		d.Classes = append(d.Classes, engine.Class[job]{Max: n})
	}
	d.Backoff = func(attempt int) time.Duration { return time.Second << attempt }
	d.Freed = func(j *job) { d.freed = append(d.freed, strings.TrimSpace(j.name+" "+j.stage)) }
	d.Start(0)
	return d
}

func (d *driver) newJob(name string, class int, due clock.Time) *job {
	j := &job{name: name}
	j.Class, j.Due = uint8(class), due
	d.Prepare(&j.Call, j)
	return j
}

// choose is what drivers do with an event of an object: stages say that one of them
// plays after a delay, or none.
func (d *driver) choose(name, stage string, version uint64, due clock.Time) string {
	o := d.things[name]
	if o == nil {
		o = &thing{name: name}
		d.things[name] = o
	}
	if o.Stale(version) {
		return "stale"
	}
	if stage == "" {
		d.Withdraw(&o.Object)
		return "nothing"
	}
	j := o.Pending()
	switch {
	case j == nil:
		j = d.newJob(name, 0, due)
		j.of = o
	case j.stage != stage:
		j.Due = due
	}
	j.stage, j.Version = stage, version
	d.Choose(&o.Object, &j.Call, d.now)
	return stage + " is due at " + seconds(j.Due)
}

func (d *driver) delete(name string) {
	if o := d.things[name]; o != nil {
		d.Forget(&o.Object)
		delete(d.things, name)
	}
}

// send sends what may be sent.
func (d *driver) send(visit func(*job)) {
	d.Advance(d.now)
	for j := d.Next(); j != nil; j = d.Next() {
		d.Send(&j.Call)
		d.sent = append(d.sent, j)
		visit(j)
	}
}

func (d *driver) answer(j *job, outcome string, made uint64, after time.Duration) {
	d.sent = slices.DeleteFunc(d.sent, func(other *job) bool { return other == j })
	d.Answer(&j.Call, outcome == "busy")
	switch {
	case j.Cancelled():
		d.Free(&j.Call)
	case outcome == "busy" && j.of != nil:
		d.Retry(&d.Replace(&j.of.Object).Call, d.now, after)
	case outcome == "busy":
		d.Retry(&j.Call, d.now, after)
	case j.of != nil:
		d.Finish(&j.of.Object, made, d.now)
	default:
		d.Free(&j.Call)
	}
}

func seconds(t clock.Time) string { return strconv.FormatFloat(t.Seconds(), 'f', -1, 64) + "s" }

func TestEngine(t *testing.T) {
	var d *driver
	number := func(s repotest.Step, key string) int { n, _ := strconv.Atoi(s.Args[key]); return n }
	length := func(s repotest.Step, key string) time.Duration { l, _ := time.ParseDuration(s.Args[key]); return l }
	var held engine.List[job]
	repotest.Trace(t, "testdata/engine.trace", func(t *testing.T, s repotest.Step) string {
		var out []string
		switch s.Name {
		case "engine":
			var classes []int
			for _, w := range strings.Split(s.Args["classes"], ",") {
				n, _ := strconv.Atoi(w)
				classes = append(classes, n)
			}
			d = newDriver(number(s, "max"), number(s, "reserved"), classes...)
			return ""
		case "event":
			return d.choose(s.Words[0], s.Args["stage"], uint64(number(s, "version")), d.now.Add(length(s, "delay")))
		case "call":
			for _, name := range s.Words {
				d.Schedule(&d.newJob(name, number(s, "class"), d.now.Add(length(s, "delay"))).Call, d.now)
			}
			return ""
		case "delete":
			d.delete(s.Words[0])
		case "list":
			d.relist.Begin()
			for _, name := range s.Words {
				d.relist.Add(name)
			}
			for _, name := range d.relist.End(func(yield func(string) bool) {
				for name := range d.things {
					if !yield(name) {
						return
					}
				}
			}) {
				d.delete(name)
			}
		case "answer":
			for _, name := range s.Words[:len(s.Words)-1] {
				i := slices.IndexFunc(d.sent, func(j *job) bool { return j.name == name })
				d.answer(d.sent[i], s.Words[len(s.Words)-1], uint64(number(s, "made")), length(s, "after"))
			}
		case "hold":
			d.Advance(d.now)
			d.Hold(&d.Next().Call, &held)
		case "resume":
			d.Resume(&held, d.now)
		case "at":
			at := repotest.Must(time.ParseDuration(s.Words[0]))(t)
			d.now = clock.Time(at)
		default:
			t.Fatalf("no command %s", s.Name)
		}
		for _, name := range d.freed {
			out = append(out, "free "+name)
		}
		d.freed = d.freed[:0]
		d.send(func(j *job) {
			line := "send " + j.name + " " + j.stage
			if j.Attempt > 0 {
				line += fmt.Sprintf(" (try %d)", j.Attempt+1)
			}
			out = append(out, strings.Join(strings.Fields(line), " ")+", due at "+seconds(j.Due))
		})
		if n := d.Queued(); n > 0 {
			out = append(out, fmt.Sprintf("%d queued", n))
		}
		if wake, ok := d.Wake(); ok {
			out = append(out, "wake at "+seconds(wake))
		}
		return strings.Join(out, "\n")
	})
}

// TestDrawn plays drawn events and answers. Whatever comes, each choice that nothing
// took back is sent once, not before it is due; an object has one call under way, and
// its calls go in the order of their due times; no more than the bound are under way;
// nothing is sent for an object after its deletion.
func TestDrawn(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		most := 1 + rng.IntN(4)
		d := newDriver(most, 0, 0)
		names := []string{"a", "b", "c", "d", "e", "f"}
		version := uint64(0)
		lastDue := map[*thing]clock.Time{}
		chosen := map[string]uint64{} // by object: the version of the last choice
		done := map[string]uint64{}   // by object: the version of the last call that was answered for good
		underWay := map[*thing]bool{}
		check := func(j *job) {
			switch {
			case d.things[j.of.name] != j.of:
				t.Fatalf("seed %d: %s was sent after its deletion", seed, j.name)
			case underWay[j.of]:
				t.Fatalf("seed %d: %s has two calls under way", seed, j.name)
			case j.Due > d.now:
				t.Fatalf("seed %d: %s was sent at %v and is due at %v", seed, j.name, d.now, j.Due)
			case j.Due < lastDue[j.of]:
				t.Fatalf("seed %d: %s was due at %v and is sent after what was due at %v", seed, j.name, j.Due, lastDue[j.of])
			case len(d.sent) > most || d.UnderWay() != len(d.sent):
				t.Fatalf("seed %d: %d calls under way, the engine says %d, the bound is %d", seed, len(d.sent), d.UnderWay(), most)
			}
			underWay[j.of], lastDue[j.of] = true, j.Due
		}
		answer := func(j *job, outcome string) {
			o, made := j.of, uint64(0)
			underWay[o] = false
			if !j.Cancelled() && outcome == "done" {
				if j.Version <= done[o.name] {
					t.Fatalf("seed %d: %s was done twice for version %d", seed, j.name, j.Version)
				}
				done[o.name] = j.Version
				if rng.IntN(2) == 0 { // and made a version, for which no choice from before is done
					version++
					made = version
					delete(chosen, o.name)
				}
			}
			d.answer(j, outcome, made, 0)
		}
		event := func(name string) {
			version++
			stage := []string{"x", "y"}[rng.IntN(2)]
			if rng.IntN(8) == 0 {
				stage = ""
			}
			if stage != "" {
				chosen[name] = version
			} else {
				delete(chosen, name) // at most one call that is under way follows
			}
			d.choose(name, stage, version, d.now.Add(time.Duration(rng.IntN(3000))*time.Millisecond))
		}
		for range 200 {
			name := names[rng.IntN(len(names))]
			switch rng.IntN(6) {
			case 0, 1:
				event(name)
			case 2:
				d.delete(name)
				delete(chosen, name)
			case 3, 4:
				if j := pick(rng, d.sent); j != nil {
					answer(j, []string{"done", "busy", "done"}[rng.IntN(3)])
				}
			default:
				d.now = d.now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
			}
			d.send(check)
		}
		for steps := 0; d.Len() > 0 || len(d.sent) > 0; steps++ {
			if steps > 10_000 {
				t.Fatalf("seed %d: it does not come to rest", seed)
			}
			for j := pick(rng, d.sent); j != nil; j = pick(rng, d.sent) {
				answer(j, "done")
			}
			if wake, ok := d.Wake(); ok {
				d.now = max(d.now, wake)
			}
			d.send(check)
		}
		for name, v := range chosen {
			if done[name] != v {
				t.Fatalf("seed %d: the choice for version %d of %s was not done, the last one was %d", seed, v, name, done[name])
			}
		}
	}
}

// pick returns any of the calls that are under way; nil without one.
func pick(rng *rand.Rand, sent []*job) *job {
	if len(sent) == 0 {
		return nil
	}
	return sent[rng.IntN(len(sent))]
}

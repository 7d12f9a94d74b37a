package tree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// world is both sides of something, without a server: what is decided is done to objects.
type world interface {
	fmt.Stringer
	settle() bool // does what follows; false where that does not end
	entries() *journal
}

// journal is what was done in a world, and what must never be done.
type journal struct{ log, wrong []string }

func (j *journal) entries() *journal { return j }

func (j *journal) say(what string, a ...any) { j.log = append(j.log, fmt.Sprintf(what, a...)) }

func (j *journal) never(what string) { j.wrong = append(j.wrong, what) }

// play lets something happen in a world, and returns what follows and what both sides have then.
func play(t *testing.T, s repotest.Step, w world, act func()) string {
	t.Helper()
	j := w.entries()
	j.log = nil
	act()
	if !w.settle() {
		t.Errorf("%s: it does not settle", s.Line)
	}
	for _, wrong := range j.wrong {
		t.Errorf("%s: %s", s.Line, wrong)
	}
	return strings.Join(append(j.log, w.String()), "\n")
}

// tale is what happens in a world that is drawn by chance.
type tale struct {
	seed  uint64
	story []string
}

// rest lets a world come to rest, and holds that both sides agree then.
func (l *tale) rest(t *testing.T, w world, agree func()) {
	t.Helper()
	j := w.entries()
	j.log = nil
	rests := w.settle()
	l.story = append(append(l.story, j.log...), w.String())
	if !rests {
		j.never("it does not come to rest")
	}
	agree()
	if len(j.wrong) > 0 {
		t.Fatalf("seed %d: %v\n%s", l.seed, j.wrong, strings.Join(l.story, "\n"))
	}
}

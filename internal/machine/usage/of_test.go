package usage

import (
	"errors"
	"os"
	"testing"
)

func TestOf(t *testing.T) {
	u, err := Of(os.Getpid())
	if err != nil || u.Resident == 0 || u.Peak < u.Resident {
		t.Errorf("%+v, %v", u, err)
	}
	busy := Busy()
	if busy < u.CPUSeconds {
		t.Errorf("the machine has worked %v s, this process alone %v", busy, u.CPUSeconds)
	}
	if _, err := Of(1 << 30); !errors.Is(err, ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
}

package lease

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// record is a lease in memory.
type record struct {
	mu sync.Mutex
	resourcelock.LeaderElectionRecord
	there        bool
	broken       error
	reads, saves int
}

// takeCounts returns how often the lease was read and written since the last call.
func (r *record) takeCounts() (reads, saves int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reads, saves = r.reads, r.saves
	r.reads, r.saves = 0, 0
	return reads, saves
}

// set breaks or mends the lease, and gives it to another process if one is named.
func (r *record) set(broken error, holder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken = broken; holder != "" {
		r.HolderIdentity = holder
	}
}

// memory is the lock of one process on a record.
type memory struct {
	*record
	identity string
}

func (m memory) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if !m.there {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, "lease")
	}
	out := m.LeaderElectionRecord
	raw, err := json.Marshal(out)
	return &out, raw, err
}

func (m memory) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.there, m.LeaderElectionRecord = true, r
	return nil
}

func (m memory) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.broken == nil {
		m.LeaderElectionRecord = r
	}
	return m.broken
}

func (m memory) RecordEvent(string) {}
func (m memory) Identity() string   { return m.identity }
func (m memory) Describe() string   { return "memory" }

// TestTheNextWorksWhenTheLeaseHasExpired kills the holder and starts the next: 16 to 18 s passed
// with the real Kosmos. The next one looks every 2 to 4.4 s.
func TestTheNextWorksWhenTheLeaseHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &record{}
		for _, c := range []struct {
			identity string
			min, max time.Duration
		}{{"a", 0, 0}, {"b", duration, duration + period*22/10}} {
			ctx, kill := context.WithCancel(t.Context())
			began := time.Now()
			err := hold(ctx, "l", memory{shared, c.identity}, func(ctx context.Context) error {
				if waited := time.Since(began); waited < c.min || waited > c.max {
					t.Errorf("%s waited for %v", c.identity, waited)
				}
				time.Sleep(time.Minute)
				kill()
				<-ctx.Done()
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", c.identity, err)
			}
		}
	})
}

// TestRequestsOfALease counts a minute: newer releases write, older ones read before.
func TestRequestsOfALease(t *testing.T) {
	for _, reads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared := &record{}
			var lock resourcelock.Interface = memory{shared, "a"}
			if reads {
				lock = reading{lock}
			}
			err := hold(t.Context(), "l", lock, func(context.Context) error {
				time.Sleep(time.Second)
				shared.takeCounts()
				time.Sleep(time.Minute)
				return nil
			})
			gotReads, gotSaves := shared.takeCounts()
			want := 0
			if reads {
				want = 30
			}
			if err != nil || gotSaves != 30 || gotReads != want {
				t.Errorf("reads before writes %v: %d reads, %d writes, error %v", reads, gotReads, gotSaves, err)
			}
		})
	}
}

// TestALostLeaseEndsTheWork keeps a process from its lease: it works on, until another has it.
func TestALostLeaseEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, began := &record{}, time.Now()
		err := hold(t.Context(), "l", memory{shared, "a"}, func(ctx context.Context) error {
			shared.set(errors.New("no"), "")
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Error("the work ends though nobody else has the lease")
			}
			shared.set(nil, "")
			time.Sleep(time.Minute)
			shared.takeCounts()
			time.Sleep(time.Minute)
			if _, saves := shared.takeCounts(); saves != 30 {
				t.Errorf("%d renewals in the minute after", saves)
			}
			shared.set(errors.New("no"), "b")
			<-ctx.Done()
			return nil
		})
		if waited := time.Since(began) - 3*time.Minute; !errors.Is(err, ErrLost) || waited > duration {
			t.Errorf("after %v: %v", waited, err)
		}
		failed := errors.New("failed")
		if err := hold(t.Context(), "l", memory{&record{}, "a"}, func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("the error of the work: %v", err)
		}
	})
}

package fleet

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// versioned answers a deletion with the pod by the version of its deletion, as API
// servers do, and all else as instantClient does.
type versioned struct {
	*instantClient
	t         *testing.T
	version   uint64
	deletions atomic.Int64
	patches   atomic.Int64
}

func (c *versioned) Send(r *wire.Request, done func(*wire.Response)) {
	switch r.Method {
	case "DELETE":
		c.deletions.Add(1)
		raw, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(c.version)}}).Marshal()
		if err != nil {
			c.t.Error(err)
		}
		now := c.clock.Now()
		done(&wire.Response{Code: 200, Sent: now, Done: now, Body: object.AppendEnvelope(nil, "v1", "Pod", raw)})
		return
	case "PATCH":
		c.patches.Add(1)
	}
	c.instantClient.Send(r, done)
}

// TestEchoesBehindADeletion: what a watch shows of a pod after its deletion was
// answered, but from before it, is nothing to delete it for again.
func TestEchoesBehindADeletion(t *testing.T) {
	c := &versioned{instantClient: newInstant(), t: t, version: 9}
	f := startOn(t, c, c.clock, scenario.Fleet{Nodes: 1})
	repotest.Eventually(t, "the node", func() bool { return f.Stats().Created == 1 })
	show := func(name string, version int, ending bool) {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "0b1e5f1c-7d52-4f39-9a39-00000000000a", ResourceVersion: fmt.Sprint(version)}}
		if name != "ends" {
			p.UID = "0b1e5f1c-7d52-4f39-9a39-00000000000b"
		}
		if ending {
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		p.Spec = corev1.PodSpec{NodeName: "node-000000", Containers: []corev1.Container{{Name: "c", Image: "image"}}}
		p.Status.Phase = corev1.PodPending
		c.events <- appendPodEvent(t, nil, "MODIFIED", &p)
	}
	idle := func() bool { s := f.Stats(); return s.InFlight == 0 && s.Queued == 0 }
	show("ends", 7, true)
	repotest.Eventually(t, "deleted", func() bool { return c.deletions.Load() == 1 && idle() })
	show("ends", 8, true)
	show("other", 10, false)
	repotest.Eventually(t, "what came later", func() bool { return c.patches.Load() > 0 && idle() })
	if n := c.deletions.Load(); n != 1 {
		t.Errorf("%d deletions", n)
	}
}

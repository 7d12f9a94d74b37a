// Package leader is the side of a run that shares its load, its nodes, its hollow members and
// its subjects among workers: which of them can be shared, who the workers are, what each is
// told to do, and what becomes of the run when one is lost. It sends nothing itself.
package leader

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windtunnel/windtunnel/internal/fly/share/job"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/share/worker"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Settings says who sends a run's load, and who keeps its nodes alive. Those who send are
// numbered first.
type Settings struct {
	Workers  int            // who send; 0: the process that leads the run does
	Fleets   int            // who keep nodes alive; 0: the process that leads the run does
	Tolerate int            // so many may be lost without the verdict being unknown for it
	Pods     *Pods          // nil: they are processes of this machine
	Manual   *ManualWorkers // nil: likewise
}

// ManualWorkers says how workers find this process that somebody starts, on whatever machine.
type ManualWorkers struct {
	Access string // file that gets what they need, a secret, or one for each of several; it must not exist, and is removed at the end
	Leader string // HOST or HOST:PORT that they reach this process at; empty: this machine's loopback
}

// isElsewhere says that workers may be on other machines.
func (s Settings) isElsewhere() bool { return s.Pods != nil || s.Manual != nil }

// Pods says that workers are pods of a Job on a Kubernetes that is there, the host.
type Pods struct {
	Kubeconfig  string // of the host
	Namespace   string
	Image       string // which holds the same file as this process
	CPU, Memory string // quantities: requests and limits of each worker
	Leader      string // HOST or HOST:PORT that pods reach this process at; empty: this machine's address towards the host
	OnPlane     bool   // the host may be the plane under test
}

// jobOptions are the Job that workers of a run are.
func (s Settings) jobOptions(run string) (job.Options, error) {
	o := job.Options{Name: "windtunnel-" + run, Namespace: s.Pods.Namespace, Image: s.Pods.Image, Workers: s.CountAll(), Verb: worker.Verb}
	var err error
	if o.CPU, err = parseQuantity("--worker-cpu", s.Pods.CPU); err != nil {
		return o, err
	}
	o.Memory, err = parseQuantity("--worker-memory", s.Pods.Memory)
	return o, err
}

func parseQuantity(flag, text string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return q, fmt.Errorf("%s %s: want a quantity above zero, such as 500m or 512Mi", flag, text)
	}
	return q, nil
}

// Manifests are what --worker-kubeconfig would make on the host, with a name in place of
// the run's.
func (s Settings) Manifests() ([]byte, error) {
	if err := s.checkNumbers(); err != nil {
		return nil, err
	}
	o, err := s.jobOptions("run")
	if err != nil {
		return nil, err
	}
	return o.Manifests()
}

// checkNumbers says what is wrong with the numbers.
func (s Settings) checkNumbers() error {
	switch {
	case s.Workers < 0 || s.Workers > s.maxWorkers():
		return fmt.Errorf("--workers %d: want 1 to %d", s.Workers, s.maxWorkers())
	case s.Fleets < 0 || s.CountAll() > s.maxWorkers():
		return fmt.Errorf("--fleet-workers %d: want 1 or more, and %s at most in all", s.Fleets, unit.Count(s.maxWorkers(), "workers"))
	case s.Tolerate < 0 || s.Tolerate > 0 && s.Tolerate >= s.CountAll():
		return fmt.Errorf("--tolerate-workers %d: want fewer than the %s", s.Tolerate, unit.Count(s.CountAll(), "workers"))
	}
	return nil
}

// CountAll is how many workers there are.
func (s Settings) CountAll() int { return s.Workers + s.Fleets }

// senderGroup are those who send.
func (s Settings) senderGroup() protocol.Group { return protocol.Group{Below: s.Workers} }

// How many workers share a load at most: on one machine, and in pods, of as many of
// which a leader has taken the streams.
const (
	maxWorkerProcesses = 256
	maxWorkerPods      = 1000
)

func (s Settings) maxWorkers() int {
	if s.Pods != nil {
		return maxWorkerPods
	}
	return maxWorkerProcesses
}

// keeperGroup are the workers that keep nodes alive.
func (s Settings) keeperGroup() protocol.Group {
	return protocol.Group{From: s.Workers, Below: s.CountAll()}
}

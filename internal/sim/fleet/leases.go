package fleet

import (
	"net/http"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/stats"
)

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + leaseNamespace + "/leases"

// leases keeps the leases of living nodes and owns the calls for them. Its
// methods are called in the driver's turn.
type leases struct {
	driver   *driver
	template *nodeTemplate
	duration time.Duration // 0: nodes have none

	held     int
	withheld int // renewals that a disturbance kept back
	skipped  int // renewals left out because the one before was still on its way
	lateness stats.Recent
}

// create makes the lease of a node that has begun to live.
func (l *leases) create(n *node) {
	if l.duration > 0 {
		n.job = l.driver.enqueue(leaseCreate, n)
	}
}

// renew asks for the renewal that is due, and says when the next one is.
func (l *leases) renew(n *node) {
	switch {
	case n.fault.silent():
		l.withheld++
	case n.job == nil:
		n.job = l.driver.newJob(leaseRenew, n, nil, n.renewalDue)
		l.driver.calls.Enqueue(&n.job.Call)
	default:
		l.skipped++
	}
	n.renewalDue = onLeaseGrid(max(n.renewalDue.Add(l.interval()), l.driver.clock.Now()))
}

// interval is a quarter of the lease with 4 % of jitter, as kubelets do it.
func (l *leases) interval() time.Duration {
	return time.Duration(float64(l.duration) / 4 * (0.98 + 0.04*l.driver.rng.Float64()))
}

// leaseGrid is how far a renewal may be put off so that it leaves in one write
// with others: waking up for each alone costs more than the renewal itself.
const leaseGrid = clock.Time(100 * time.Millisecond)

// onLeaseGrid rounds a due time up to the grid; lateness counts from there.
func onLeaseGrid(t clock.Time) clock.Time { return (t + leaseGrid - 1) / leaseGrid * leaseGrid }

// release forgets the lease of a node that has ended.
func (l *leases) release(n *node) {
	if n.hasLease {
		n.hasLease = false
		l.held--
	}
}

func (l *leases) build(j *job) bool {
	n, r := j.node, &j.request
	if n.ended() {
		return false
	}
	now := l.driver.clock.Wall(l.driver.clock.Now()).Add(n.fault.skew())
	r.Accept, r.ContentType, r.Body = object.ContentType, object.ContentType, nil
	switch j.action {
	case leaseRead:
		r.Method, r.Path = http.MethodGet, leasesPath+"/"+n.name
	case leaseRenew:
		j.body = l.template.appendLease(j.body[:0], n, strconv.FormatUint(n.leaseVersion, 10), now)
		r.Method, r.Path, r.Body = http.MethodPut, leasesPath+"/"+n.name, j.body
	default:
		j.body = l.template.appendLease(j.body[:0], n, "", now)
		r.Method, r.Path, r.Body = http.MethodPost, leasesPath, j.body
	}
	return true
}

func (l *leases) settle(j *job) {
	missing, conflict := j.answer.Code == http.StatusNotFound, j.answer.Code == http.StatusConflict
	switch {
	case j.ok() && j.action == leaseRead:
		j.node.leaseVersion = j.answer.version
		l.driver.proceed(j, leaseRenew)
	case j.ok():
		l.written(j)
	case j.answer.Retriable():
		l.driver.retry(j)
	case j.action == leaseCreate && missing:
		l.driver.retry(j) // a young plane has no namespace for leases yet
	case j.action != leaseRead && conflict:
		l.driver.proceed(j, leaseRead)
	case j.action != leaseCreate && missing:
		l.driver.proceed(j, leaseCreate)
	default:
		l.driver.drop(j)
	}
}

// written takes the answer to a lease's creation or renewal.
func (l *leases) written(j *job) {
	n := j.node
	if j.action == leaseRenew {
		l.lateness.Add(time.Duration(j.answer.Done), j.answer.Done.Sub(j.Due))
	}
	if !n.hasLease {
		n.hasLease = true
		l.held++
	}
	n.leaseVersion = j.answer.version
	if n.renewalDue == 0 && n.state == nodeAlive {
		// Anywhere in the first interval, so that nodes that were made together
		// do not renew together for ever.
		n.renewalDue = onLeaseGrid(j.answer.Done.Add(time.Duration(l.driver.rng.Float64() * float64(l.interval()))))
		n.arm(&l.driver.calls.Wheel)
	}
	l.driver.freeJob(j)
}

// addStats adds the leases' part to a fleet's state.
func (l *leases) addStats(s *Stats) {
	at := time.Duration(l.driver.clock.Now())
	s.Leases, s.Withheld, s.Skipped = l.held, l.withheld, l.skipped
	s.LeaseLateness = l.lateness.Quantile(at, 0.99)
}

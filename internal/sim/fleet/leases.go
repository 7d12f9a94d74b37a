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

// createLease makes the lease of a node that has begun to live.
func (l *leases) createLease(n *node) {
	if l.duration > 0 {
		n.job = l.driver.enqueueNodeJob(leaseCreate, n)
	}
}

// renewLease asks for the renewal that is due, and says when the next one is.
func (l *leases) renewLease(n *node) {
	switch {
	case n.fault.isSilent():
		l.withheld++
	case n.job == nil:
		n.job = l.driver.newJob(leaseRenew, n, nil, n.renewalDue)
		l.driver.calls.Enqueue(&n.job.Call)
	default:
		l.skipped++
	}
	n.renewalDue = onLeaseGrid(max(n.renewalDue.Add(l.nextInterval()), l.driver.clock.Now()))
}

// nextInterval is a quarter of the lease with 4 % of jitter, as kubelets do it.
func (l *leases) nextInterval() time.Duration {
	return time.Duration(float64(l.duration) / 4 * (0.98 + 0.04*l.driver.rng.Float64()))
}

// leaseGrid is how far a renewal may be put off so that it leaves in one write
// with others: waking up for each alone costs more than the renewal itself.
const leaseGrid = clock.Time(100 * time.Millisecond)

// onLeaseGrid rounds a due time up to the grid; lateness counts from there.
func onLeaseGrid(t clock.Time) clock.Time { return (t + leaseGrid - 1) / leaseGrid * leaseGrid }

// releaseLease forgets the lease of a node that has ended.
func (l *leases) releaseLease(n *node) {
	if n.hasLease {
		n.hasLease = false
		l.held--
	}
}

func (l *leases) buildRequest(j *job) bool {
	n, r := j.node, &j.request
	if n.hasEnded() {
		return false
	}
	now := l.driver.clock.Wall(l.driver.clock.Now()).Add(n.fault.clockSkew())
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

func (l *leases) settleAnswer(j *job) {
	missing, conflict := j.answer.Code == http.StatusNotFound, j.answer.Code == http.StatusConflict
	switch {
	case j.succeeded() && j.action == leaseRead:
		j.node.leaseVersion = j.answer.version
		l.driver.proceedWith(j, leaseRenew)
	case j.succeeded():
		l.settleWritten(j)
	case j.answer.Retriable():
		l.driver.retryJob(j)
	case j.action == leaseCreate && missing:
		l.driver.retryJob(j) // a young plane has no namespace for leases yet
	case j.action != leaseRead && conflict:
		l.driver.proceedWith(j, leaseRead)
	case j.action != leaseCreate && missing:
		l.driver.proceedWith(j, leaseCreate)
	default:
		l.driver.dropJob(j)
	}
}

// settleWritten takes the answer to a lease's creation or renewal.
func (l *leases) settleWritten(j *job) {
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
		n.renewalDue = onLeaseGrid(j.answer.Done.Add(time.Duration(l.driver.rng.Float64() * float64(l.nextInterval()))))
		n.armTimer(&l.driver.calls.Wheel)
	}
	l.driver.freeJob(j)
}

// addStats adds the leases' part to a fleet's state.
func (l *leases) addStats(s *Stats) {
	at := time.Duration(l.driver.clock.Now())
	s.Leases, s.Withheld, s.Skipped = l.held, l.withheld, l.skipped
	s.LeaseLateness = l.lateness.Quantile(at, 0.99)
}

package fleet

import "sync"

// mailbox holds finished jobs until the driver takes them.
type mailbox struct {
	mu     sync.Mutex
	jobs   []*job
	urgent bool // the driver is to look at once, and has been told
}

// putJob adds a job; true when the driver must be told.
func (m *mailbox) putJob(j *job, urgent bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs = append(m.jobs, j)
	tell := urgent && !m.urgent
	m.urgent = m.urgent || urgent
	return tell
}

func (m *mailbox) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.jobs) == 0
}

// exchangeJobs returns all jobs and leaves spare in their place.
func (m *mailbox) exchangeJobs(spare []*job) []*job {
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs := m.jobs
	m.jobs, m.urgent = spare[:0], false
	return jobs
}

package process

// PID returns the number of the reaper's process.
func (r *Reaper) PID() int { return r.cmd.Process.Pid }

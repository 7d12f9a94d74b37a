package process

// PID returns the number of the reaper's process.
func (r *Reaper) PID() int { return r.cmd.Process.Pid }

// Unlock gives a folder's lock back, and leaves the folder.
func (f *Folder) Unlock() { _ = f.lock.Close() }

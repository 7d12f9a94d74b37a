package process

// PID returns the number of the reaper's process.
func (r *Reaper) PID() int { return r.cmd.Process.Pid }

// Unlock gives a folder's lock back, and leaves the folder.
func (f *Folder) Unlock() { _ = f.lock.Close() }

// Kill kills the reaper's process and gives the folder's lock back, as a kill of both does.
func Kill(r *Reaper) {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	_ = r.lock.Close()
}

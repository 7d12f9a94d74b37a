package process

// PID returns the number of the keeper's process.
func (k *Keeper) PID() int { return k.cmd.Process.Pid }

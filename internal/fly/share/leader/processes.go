package leader

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/worker"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
)

// encodePlan is what workers are given.
func (w *Workers) encodePlan() ([]byte, error) {
	files, err := message.FilesOf(w.run.Workload.Scenario, w.run.Workload.File, w.run.Fleets > 0)
	if err != nil {
		return nil, err
	}
	p := message.Plan{
		Text: w.run.Text, Set: w.run.Set, Seed: w.run.Workload.Scenario.Seed, Files: files, Stamp: w.run.Stamp, Destructive: w.run.Workload.Destructive,
		Senders: w.run.Workers, FleetName: w.run.FleetName, Version: w.run.Self,
	}
	if w.run.isElsewhere() && w.run.Plane.Endpoint(plane.Load).Renewable() {
		return nil, errors.New("the kubeconfig of the plane has its credentials from a program or a file, which workers elsewhere do not have: name one that holds a token or a certificate")
	}
	if w.run.Kubeconfig != "" && !w.run.isElsewhere() { // its credentials may be a plugin's, which runs where the file says
		if p.Cluster, err = filepath.Abs(w.run.Kubeconfig); err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
		return p.Encode()
	}
	if p.Kubeconfig, err = w.run.Plane.Endpoint(plane.Load).Kubeconfig(); err != nil {
		return nil, err
	}
	if p.FleetKubeconfig, err = w.run.Plane.Endpoint(plane.Fleet).Kubeconfig(); err != nil {
		return nil, err
	}
	return p.Encode()
}

// startProcesses starts the workers as processes of this machine. The kernel ends them
// with this one. How they find the leader is on no disk; what they write for a while, such as
// a kubeconfig, is in a folder that goes with the run.
func (w *Workers) startProcesses(folder record.Dir) error {
	scratch, err := w.run.Plane.Folder("workers")
	if err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	here, err := os.Getwd() // the run directory may be relative to it
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	for i := range w.run.CountAll() {
		name := "worker-" + strconv.Itoa(i)
		access, err := json.Marshal(w.leader.Access(i))
		if err != nil {
			return fmt.Errorf("say where the leader is: %w", err)
		}
		p, err := process.Start(process.Spec{
			Name: name, Path: executable, Args: []string{worker.Verb, worker.StandardInput, strconv.Itoa(i), folder.File("spool-" + strconv.Itoa(i) + ".wt")},
			Env: append(os.Environ(), "TMPDIR="+scratch), Dir: here, Input: access, LogFile: w.run.Dir.File(record.LogFolder + "/" + name + ".log"),
		}, nil)
		if err != nil {
			return err
		}
		w.processes = append(w.processes, p)
		w.wait.Go(func() { w.watchProcess(i, p) })
	}
	return nil
}

// watchProcess says that a worker is lost when its process has ended before the run.
func (w *Workers) watchProcess(worker int, p *process.Process) {
	<-p.Done()
	select {
	case <-w.leaving:
	default:
		why := errors.New("its process has ended")
		if err := p.Err(); err != nil {
			why = err
		}
		w.leader.Lose(worker, why)
	}
}

// tellAccess writes what workers that somebody starts need to find this process: a file for
// each, which does not let it join as another.
func (w *Workers) tellAccess(path string) error {
	for i := range w.run.CountAll() {
		access, err := json.Marshal(w.leader.Access(i))
		if err != nil {
			return fmt.Errorf("say where the leader is: %w", err)
		}
		if err := w.writeAccess(accessFile(path, i, w.run.CountAll()), access); err != nil {
			return fmt.Errorf("say where the leader is: %w", err)
		}
	}
	return nil
}

// accessFile is the path of worker i's file: access.json for the only one, else
// access-0.json, access-1.json and so on.
func accessFile(path string, i, of int) string {
	if of == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + strconv.Itoa(i) + ext
}

func (w *Workers) writeAccess(path string, access []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w.access = append(w.access, path)
	_, err = file.Write(access)
	return errors.Join(err, file.Close())
}

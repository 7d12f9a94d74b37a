package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
)

// The names of the sides, in the table and in the file.
const (
	kwokName = "kwok"
	ourName  = "windtunnel"
)

// side is one of the two commands that are compared. Both take kwok's flags.
type side struct {
	name, path string
	args       []string
	lease      time.Duration
	stages     []string // folders
}

func (o options) bothSides() []side {
	ours := strings.Fields(o.ours)
	folders := []string{
		filepath.Join(o.stages, "node", "fast"), filepath.Join(o.stages, "node", "heartbeat-with-lease"), filepath.Join(o.stages, "pod", "fast"),
	}
	return []side{
		{kwokName, o.kwok, nil, o.lease, folders},
		{ourName, ours[0], ours[1:], o.lease, folders},
	}
}

// writeConfig writes the side's stages into one file and returns its path.
func (s side) writeConfig(folder string) (string, error) {
	var all strings.Builder
	for _, dir := range s.stages {
		files, err := stageFiles(dir)
		if err != nil {
			return "", err
		}
		for _, path := range files {
			raw, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("read stage: %w", err)
			}
			all.WriteString("---\n" + strings.TrimSpace(string(raw)) + "\n")
		}
	}
	path := filepath.Join(folder, "stages.yaml")
	if err := os.WriteFile(path, []byte(all.String()), 0o600); err != nil {
		return "", fmt.Errorf("write stages: %w", err)
	}
	return path, nil
}

// stageFiles names the stages that a folder of kwok's holds.
func stageFiles(folder string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("find stages: %w", err)
	}
	var out []string
	for _, path := range all {
		if filepath.Base(path) != "kustomization.yaml" {
			out = append(out, path)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no stages in %s", folder)
	}
	return out, nil
}

// running is a side's process.
type running struct {
	*process.Process
	server string // address of its own HTTP server
	http   *http.Client
}

// startSide starts the side; all that it leaves lies in the reaper's folder.
func (s side) startSide(kubeconfig string, reaper *process.Reaper) (*running, error) {
	config, err := s.writeConfig(reaper.Dir())
	if err != nil {
		return nil, err
	}
	server, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args := append(append([]string{}, s.args...),
		"--kubeconfig="+kubeconfig, "--config="+config, "--manage-all-nodes=true",
		"--node-lease-duration-seconds="+strconv.Itoa(int(s.lease.Seconds())), "--server-address="+server)
	p, err := process.Start(process.Spec{
		Name: s.name, Path: s.path, Args: args, LogFile: filepath.Join(reaper.Dir(), s.name+".log"),
		// Somebody's own configuration of kwok must not come in by HOME.
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + reaper.Dir()},
	}, reaper)
	if err != nil {
		return nil, err
	}
	return &running{Process: p, server: server, http: &http.Client{Timeout: 10 * time.Second}}, nil
}

// freeAddress returns a loopback address on which nobody listens now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("choose a port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// memory is a side's memory at rest.
type memory struct {
	resident float64 // bytes, from /proc
	live     float64 // bytes of live objects and stacks after a collection; 0 when the side does not tell
}

// awaitSteadyMemory lets the side collect its garbage and returns its memory when it changes
// no more, or after restMost.
func (r *running) awaitSteadyMemory(ctx context.Context) (m memory, err error) {
	const every, still, restMost = time.Second, 5, 25
	for range 2 { // what the first finds dead, the second has swept
		m.live = r.collectGarbage(ctx)
	}
	same, last := 0, 0.0
	for range restMost {
		u, err := usage.Of(r.PID())
		if err != nil {
			return m, err
		}
		m.resident = float64(u.Resident)
		if same++; m.resident < 0.99*last || m.resident > 1.01*last {
			same, last = 0, m.resident
		}
		if same >= still {
			break
		}
		if err := clock.Sleep(ctx, every); err != nil {
			return m, err
		}
	}
	return m, nil
}

// collectGarbage asks for a garbage collection by Go's profiling handler, which kwok
// serves, and returns the bytes that live after it; 0 when there is no handler.
func (r *running) collectGarbage(ctx context.Context) float64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.server+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0
	}
	answer, err := r.http.Do(req)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0
	}
	return liveBytes(answer.Body)
}

// liveBytes reads runtime.MemStats behind a heap profile in text form: lines
// such as "# HeapAlloc = 123" and "# Stack = 45 / 67".
func liveBytes(profile io.Reader) float64 {
	sum := 0.0
	lines := bufio.NewScanner(profile)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) >= 4 && f[0] == "#" && f[2] == "=" && (f[1] == "HeapAlloc" || f[1] == "Stack") {
			v, err := strconv.ParseFloat(f[3], 64)
			if err != nil {
				return 0
			}
			sum += v
		}
	}
	return sum
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// Cost is what a server has used until now.
type Cost struct {
	CPU      float64 `json:"cpu_seconds"`
	InUse    int64   `json:"in_use_bytes"` // heap and stacks after two collections; 0 where nobody can ask
	Resident int64   `json:"resident_bytes"`
}

// served is what a server says when its clusters can be reached.
type served struct {
	CA        []byte   `json:"ca"`
	Token     string   `json:"token"`
	Addresses []string `json:"addresses"`
}

// serveClusters is the process of hollow clusters: it says where they are, then answers
// each line of its input with what it has used, and ends with its input.
func serveClusters(clusters int, o hollow.Options) error {
	if profile := os.Getenv("WINDTUNNEL_PROFILE"); profile != "" { // of the process's whole life, for go tool pprof
		file, err := os.Create(profile)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	s, err := hollow.New(o)
	if err != nil {
		return err
	}
	defer s.Close()
	var said served
	for i := range clusters {
		c, err := s.Cluster("c" + strconv.Itoa(i))
		if err != nil {
			return err
		}
		config := c.Endpoint().Config("")
		said.CA, said.Token = config.CAData, config.BearerToken
		said.Addresses = append(said.Addresses, c.Address())
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(said); err != nil {
		return fmt.Errorf("say where clusters are: %w", err)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		cost, err := ownCost()
		if err != nil {
			return err
		}
		if err := out.Encode(cost); err != nil {
			return fmt.Errorf("say what was used: %w", err)
		}
	}
	return nil
}

// ownCost returns what this process has used. The CPU of the collections that it
// makes is not counted.
func ownCost() (c Cost, err error) {
	c.CPU = process.OwnCPU().Seconds()
	now, err := usage.Of(os.Getpid())
	if err != nil {
		return c, err
	}
	c.Resident = int64(now.Resident)
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	c.InUse = int64(m.HeapAlloc + m.StackInuse)
	return c, nil
}

// server is a process of hollow clusters.
type server struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	said  served
	ready time.Duration // from its start until its clusters could be reached
}

// startServer starts one, with further arguments for the process.
func startServer(clusters int, more ...string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own executable: %w", err)
	}
	s := &server{cmd: exec.Command(self, append([]string{"-serve", strconv.Itoa(clusters)}, more...)...)}
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start hollow clusters: %w", err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start hollow clusters: %w", err)
	}
	s.out = json.NewDecoder(out)
	c := clock.Start()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start hollow clusters: %w", err)
	}
	if err := s.out.Decode(&s.said); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("start hollow clusters: %w", err)
	}
	s.ready = time.Duration(c.Now())
	return s, nil
}

// Close ends the process and waits for it.
func (s *server) Close() error {
	_ = s.in.Close()
	return s.cmd.Wait()
}

// endpointOf returns how to reach cluster i.
func (s *server) endpointOf(i int) endpoint.Endpoint {
	return endpoint.Bearer(s.said.Addresses[i], s.said.CA, s.said.Token)
}

// askCost asks the process what it has used.
func (s *server) askCost() (c Cost, err error) {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return c, fmt.Errorf("ask hollow clusters: %w", err)
	}
	if err := s.out.Decode(&c); err != nil {
		return c, fmt.Errorf("ask hollow clusters: %w", err)
	}
	return c, nil
}

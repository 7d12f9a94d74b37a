package clusterloader2

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

func sleep(_ *lowering, c call, _ int) []scenario.Step {
	d := c.duration("duration", 0)
	if d <= 0 {
		return nil // ClusterLoader2 goes on at once
	}
	return []scenario.Step{{Name: c.identifier, Pause: unit.Duration(d)}}
}

// execute runs a local command.
func execute(_ *lowering, c call, _ int) []scenario.Step {
	command := c.texts("command")
	if name := c.text("name", ""); len(command) == 0 && name != "" { // its older form
		command = append([]string{name}, c.texts("args")...)
	}
	if len(command) == 0 {
		c.im.faults.at(c.where, "%s: command is needed", c.method)
		return nil
	}
	for i := range command {
		command[i] = c.im.expand(command[i])
	}
	if c.whole("retries", 1) > 1 {
		c.note("a command is run once; retries and backoffDelay are left out")
	}
	return []scenario.Step{{Name: c.identifier, Exec: &scenario.Exec{
		Command: command, Timeout: unit.Duration(c.duration("timeout", time.Hour)),
	}}}
}

// chaosMethod lets nodes fail from here on.
func chaosMethod(_ *lowering, c call, _ int) []scenario.Step {
	if c.action() != "start" {
		c.note("nodes go on failing until the end of the run")
		return nil
	}
	share, every, down := c.number("failureRate", 0), c.duration("interval", 0), c.duration("simulatedDowntime", 0)
	if share <= 0 || every <= 0 || down <= 0 {
		c.im.faults.at(c.where, "%s: failureRate, interval and simulatedDowntime above 0 are needed", c.method)
		return nil
	}
	return []scenario.Step{{Name: c.identifier, Fault: nodeFailures(share, every, c.number("jitterFactor", 0), down)}}
}

// restartServer takes the API server away for some seconds. ClusterLoader2
// does it over ssh; here it is a process of ours.
func restartServer(_ *lowering, c call, _ int) []scenario.Step {
	f := &scenario.Disturbance{Component: "kube-apiserver", Action: "restart"}
	if s := c.number("downSeconds", 0); s > 0 {
		f.Action, f.For, f.Hold = "kill", unit.Duration(s*float64(time.Second)), true
	}
	return []scenario.Step{{Name: c.identifier, Fault: f}}
}

package clusterloader2

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

func lowerSleep(_ *lowering, c call, _ int) []scenario.Step {
	c.needText("duration")
	d := c.readDuration("duration", 0)
	if d <= 0 {
		return nil // ClusterLoader2 goes on at once
	}
	return []scenario.Step{{Name: c.identifier, Pause: unit.Duration(d)}}
}

// lowerExec runs a local command.
func lowerExec(_ *lowering, c call, _ int) []scenario.Step {
	command := c.readTexts("command")
	if name := c.readText("name", ""); len(command) == 0 && name != "" { // its older form
		command = append([]string{name}, c.readTexts("args")...)
	}
	if len(command) == 0 {
		c.im.faults.addAt(c.where, "%s: command is needed", c.method)
		return nil
	}
	for i := range command {
		command[i] = c.im.expandVariables(command[i])
	}
	if n := c.readInt("retries", 1); n < 1 {
		c.addFault("retries", "%d is not above 0", n)
	}
	return []scenario.Step{{Name: c.identifier, Exec: &scenario.Exec{
		Command: command, Timeout: unit.Duration(c.readDuration("timeout", time.Hour)),
	}}}
}

// chaosMethod lets nodes fail from here on.
func chaosMethod(l *lowering, c call, _ int) []scenario.Step {
	if c.actionOf() != start {
		c.noteDifference("nodes go on failing until the end of the run; ClusterLoader2 ends that here")
		return nil
	}
	f := config.NodeFailure{
		FailureRate: c.readNumber("failureRate", 0), Interval: config.Duration(c.readDuration("interval", 0)),
		JitterFactor: c.readNumber("jitterFactor", 0), SimulatedDowntime: config.Duration(c.readDuration("simulatedDowntime", 0)),
	}
	if f.FailureRate <= 0 || f.Interval <= 0 || f.SimulatedDowntime <= 0 {
		c.im.faults.addAt(c.where, "%s: failureRate, interval and simulatedDowntime above 0 are needed", c.method)
		return nil
	}
	c.addNote(failuresDiffer)
	return []scenario.Step{{Name: c.identifier, Fault: nodeFailures(l.options.Nodes, f)}}
}

// downSeconds is how long ClusterLoader2 takes the API server away by default.
const downSeconds = 30

// restartServer takes the API server away for some seconds. ClusterLoader2
// does it over ssh; here it is a process of ours.
func restartServer(_ *lowering, c call, _ int) []scenario.Step {
	f := &scenario.Disturbance{Component: "kube-apiserver", Action: "restart"}
	if s := c.readInt("downSeconds", downSeconds); s > 0 {
		f.Action, f.For, f.Hold = "kill", unit.Duration(time.Duration(s)*time.Second), true
	}
	return []scenario.Step{{Name: c.identifier, Fault: f}}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/machine/process"
)

// faultFlags are those of the verb fault.
type faultFlags struct {
	folder, selector              string
	lasting, delay, between, down string
	share, percent                float64
	count                         int
}

// faultVerb breaks something in the plane of a running `up`.
func faultVerb(env *environment) *cobra.Command {
	var f faultFlags
	verb := &cobra.Command{
		Use:   "fault ACTION TARGET",
		Short: "Inject a fault into the control plane or the fleet of a running `windtunnel up`",
		Long: "fault injects the faults of a scenario step fault into a running windtunnel up:\n" +
			"  kill, term, pause, restart, slow, roll          a component, such as etcd, etcd-0 or etcd-leader\n" +
			"  notready, silent, flap, slow, skew, reconnect   nodes\n" +
			"  fail, crash                                     pods\n" +
			"The fault ends after --for or by Ctrl-C; then a killed component is started again. fault\n" +
			"acts on the up of --folder, otherwise on that of $KUBECONFIG, otherwise on the only one.",
		Example: "  windtunnel fault kill kube-apiserver --for 10s\n  windtunnel fault slow etcd --share 0.2\n" +
			"  windtunnel fault notready nodes --percent 10 --for 1m\n  windtunnel fault crash pods --selector app=web --count 5 --for 1m",
		Args: cobra.ExactArgs(2),
	}
	flags := verb.Flags()
	flags.StringVar(&f.folder, "folder", "", "`DIR` that up printed, which contains its kubeconfig")
	flags.StringVar(&f.lasting, "for", "", "`DURATION` of the fault, such as 30s (default: until Ctrl-C)")
	flags.Float64Var(&f.share, "share", 0, "slow a component: `SHARE` of the time in which it may run, above 0 and below 1")
	flags.IntVar(&f.count, "count", 0, "`NUMBER` of nodes or pods to disturb (default all)")
	flags.Float64Var(&f.percent, "percent", 0, "`PERCENTAGE` of nodes or pods to disturb (default all)")
	flags.StringVar(&f.selector, "selector", "", "label `SELECTOR` of nodes or pods to disturb")
	flags.StringVar(&f.delay, "delay", "", "slow nodes: added latency; skew: error of lease times, a `DURATION`")
	flags.StringVar(&f.between, "between", "", "mean `DURATION` between failures: flap, of one node; fail and crash, of all pods (default: at once)")
	flags.StringVar(&f.down, "down", "", "flap and crash: `DURATION` until a node or pod is back")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := env.interruptibleContext(cmd.Context(), "taking it back", func() { os.Exit(exitUnknown) })
		defer cancel()
		if args[1] != "nodes" && args[1] != "pods" && (f.count != 0 || f.percent != 0 || f.selector != "") {
			return fmt.Errorf("fault: --count, --percent and --selector choose nodes or pods, and do nothing to %s", args[1])
		}
		if flags.Changed("count") && f.count < 1 || flags.Changed("percent") && !(f.percent > 0 && f.percent <= 100) {
			return errors.New("fault: want a --count of 1 or more, and a --percent above 0 and at most 100")
		}
		socket, err := controlSocket(f.folder)
		if err != nil {
			return err
		}
		return f.injectFault(ctx, env, socket, args)
	}
	return verb
}

// controlSocket finds the socket of a running up.
func controlSocket(folder string) (string, error) {
	if folder == "" {
		at := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), flight.ControlSocket)
		if isListening(at) {
			return at, nil
		}
	}
	pattern := filepath.Join(os.TempDir(), process.UpPrefix+"*")
	if folder != "" {
		pattern = folder
	}
	all, err := filepath.Glob(filepath.Join(pattern, flight.ControlSocket))
	if err != nil {
		return "", fmt.Errorf("--folder %s: %w", folder, err)
	}
	all = slices.DeleteFunc(all, func(path string) bool { return !isListening(path) })
	switch len(all) {
	case 0:
		return "", errors.New("no windtunnel up of yours is running: start one, or name its folder with --folder")
	case 1:
		return all[0], nil
	}
	var folders []string
	for _, path := range all {
		folders = append(folders, filepath.Dir(path))
	}
	return "", fmt.Errorf("%d windtunnel up are running: export the KUBECONFIG of one, or give --folder: %s", len(all), strings.Join(folders, ", "))
}

// isListening says whether an up is behind a socket: one that was killed leaves its
// folder.
func isListening(path string) bool {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// injectFault asks for the fault and returns when it was taken back.
func (f *faultFlags) injectFault(ctx context.Context, env *environment, socket string, args []string) error {
	raw, err := json.Marshal(f.faultStep(args[0], args[1])) // JSON is YAML
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://up/fault", bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
		return errors.New(withoutPlace(string(why)))
	}
	fmt.Fprintf(env.stdout, "%s %s: began\n", args[0], args[1])
	said, err := io.ReadAll(answer.Body)
	switch end := strings.TrimPrefix(string(said), flight.FaultBegan); {
	case ctx.Err() != nil: // hanging up takes it back
	case err != nil:
		return fmt.Errorf("the up ended: %w", err)
	case end != flight.FaultEnded:
		return fmt.Errorf("%s %s could not be taken back: %s", args[0], args[1], strings.TrimSpace(end))
	}
	fmt.Fprintf(env.stdout, "%s %s: over\n", args[0], args[1])
	return nil
}

// faultStep is the fault step of a scenario that says the same.
func (f *faultFlags) faultStep(action, target string) map[string]any {
	step := map[string]any{"action": action}
	switch target {
	case "nodes", "pods":
		victims := map[string]any{}
		setIfGiven(victims, "count", f.count)
		setIfGiven(victims, "percent", f.percent)
		setIfGiven(victims, "selector", f.selector)
		step[target] = victims
	default:
		step["component"] = target
	}
	setIfGiven(step, "for", f.lasting)
	setIfGiven(step, "share", f.share)
	setIfGiven(step, "delay", f.delay)
	setIfGiven(step, "between", f.between)
	setIfGiven(step, "down", f.down)
	return step
}

// setIfGiven sets what was given.
func setIfGiven[T comparable](step map[string]any, name string, value T) {
	var none T
	if value != none {
		step[name] = value
	}
}

// withoutPlace leaves out the place in a file that nobody wrote.
func withoutPlace(faults string) string {
	var out []string
	for line := range strings.Lines(faults) {
		if _, rest, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(line, "fault:") {
			line = rest
		}
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "\n")
}

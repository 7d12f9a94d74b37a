package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/machine/calibrate"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/archive"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/seal"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// publishVerb makes a bundle.
func publishVerb(env *environment) *cobra.Command {
	var out, claims, key string
	var o publish.Options
	verb := &cobra.Command{
		Use:   "publish RUN|EXPERIMENT -o FILE",
		Short: "Pack the runs of an experiment and its claims into one file that others can check",
		Long: "publish copies a run directory, or all runs in the folder of an experiment such as that of ab,\n" +
			"into a bundle, without addresses, hosts, users, paths and Secrets. It checks each claim: if\n" +
			"one does not hold, it writes nothing and exits with 1, or with 2 if the runs cannot show it.",
		Example: "  windtunnel publish runs/density/ab-rate=50-rate=100 --claims claims.yaml --key ~/.ssh/id_ed25519 -o density.wtb",
		Args:    cobra.ExactArgs(1),
	}
	flags := verb.Flags()
	flags.StringVarP(&out, "out", "o", "", "bundle `FILE` to write")
	_ = verb.MarkFlagRequired("out") // it is there
	flags.StringVar(&claims, "claims", "", "YAML `FILE` with the claims: sentences with a measure and its bounds")
	flags.StringVar(&key, "key", "", "sign with this SSH private key `FILE` (Ed25519, without a passphrase)")
	flags.StringVar(&o.Control, "control", "", "include the A/A comparison in `DIR`, run on the same machine within one hour")
	flags.StringArrayVar(&o.Remove, "remove", nil, "also take out this `TEXT` wherever it stands, such as a project's name; repeatable")
	verb.RunE = func(cmd *cobra.Command, args []string) (err error) {
		o.Source = args[0]
		if claims != "" {
			if o.Claims, err = os.ReadFile(claims); err != nil {
				return fmt.Errorf("read claims: %w", err)
			}
		}
		if o.Key, err = readKey(key); err != nil {
			return err
		}
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		_, err = env.publish(ctx, out, o)
		return err
	}
	return verb
}

// calibrated returns fly with a calibration of this machine before and after each run, which
// it leaves beside the records.
func calibrated(fly flyFunc) flyFunc {
	return func(ctx context.Context, o flight.Options) (flight.Result, error) {
		before, err := calibration(ctx, calibrate.BesideRun)
		if err != nil {
			return flight.Result{}, err
		}
		r, err := fly(ctx, o)
		if err != nil || before == nil || ctx.Err() != nil {
			return r, err
		}
		after, err := calibration(ctx, calibrate.BesideRun)
		if err != nil {
			return r, nil // stopped after the run: it has none
		}
		before.Seconds = append(before.Seconds, after.Seconds...)
		return r, r.Dir.WriteJSON(publish.CalibrationFile, before)
	}
}

// calibration measures this machine; nil where the system does not let it.
func calibration(ctx context.Context, repeats int) (*publish.Calibration, error) {
	seconds, err := calibrate.Measure(ctx, repeats)
	if errors.Is(err, calibrate.ErrSystem) {
		return nil, nil
	}
	return &publish.Calibration{Version: calibrate.Version, Seconds: seconds}, err
}

// findProgram returns where windtunnel and the executables of a run's plane are here;
// empty: nowhere.
func findProgram(name string, m record.Manifest) string {
	tool, err := os.Executable()
	switch {
	case err != nil:
		return ""
	case name == "windtunnel":
		return tool
	case m.Plane.Build == nil || m.Plane.Build.Executables[name] == "":
		return ""
	}
	p, err := release.Find(release.Wanted{Kubernetes: m.Versions["kubernetes"], Etcd: "v" + m.Versions["etcd"]}, tool)
	if err != nil {
		return ""
	}
	return filepath.Join(p.Folder, name)
}

// publish writes a bundle of this machine's runs and says what is in it.
func (env *environment) publish(ctx context.Context, out string, o publish.Options) (*publish.Results, error) {
	if err := checkReplaced(out, []byte(archive.Begin)); err != nil {
		return nil, err
	}
	o.MadeBy, o.Machine, o.FindProgram = buildName(), usage.Machine(), findProgram
	if host, err := os.Hostname(); err == nil && len(host) > 3 && host != "localhost" {
		o.Remove = append(o.Remove, host)
	}
	var err error
	if o.Calibration, err = calibration(ctx, calibrate.Repeats); err != nil {
		return nil, err
	}
	file, err := record.Dir(filepath.Dir(out)).Create(filepath.Base(out), 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := publish.Make(ctx, file, o)
	if err != nil {
		return nil, err
	}
	worst := slo.Pass
	for _, c := range r.Claims {
		fmt.Fprintf(env.stdout, "claim %s: %s\n", c.State, text.Clean(c.Sentence()))
		if v := verdictOf(c.State); isWorse(v, worst) {
			worst = v
		}
	}
	if worst != slo.Pass {
		fmt.Fprintln(env.stdout, "Nothing was written: correct the claims, or add runs.")
		return r, verdictError{worst}
	}
	if err := file.Keep(); err != nil {
		return r, err
	}
	fmt.Fprintln(env.stdout, text.Clean(publish.LevelSentence(r)))
	for _, x := range r.Removed {
		fmt.Fprintf(env.stdout, "taken out of %s: %s, %s\n", text.Clean(x.File), x.Class, unit.Count(x.Times, "times"))
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(env.stdout, "left out: %s: %s\n", text.Clean(l.Name), text.Clean(l.Why))
	}
	fmt.Fprintln(env.stdout, out)
	return r, nil
}

// verdictOf returns the verdict that a state stands for.
func verdictOf(state string) slo.Verdict {
	switch state {
	case publish.Holds:
		return slo.Pass
	case publish.Fails:
		return slo.Fail
	}
	return slo.Unknown
}

// verifyVerb checks a bundle.
func verifyVerb(env *environment) *cobra.Command {
	var signers []string
	var output string
	verb := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a published bundle: signature, digests, and every result from the records",
		Long: "verify needs no network. It computes verdicts, comparison and claims of the bundle again from\n" +
			"its records and compares the bytes. It exits with 0 if everything holds, with 1 if something\n" +
			"does not, and with 2 if it cannot tell, such as for a bundle without a signature.",
		Example: "  windtunnel verify density.wtb --signer SHA256:jZ2qmQ7hYk3yKpLwQm1cZ8mC0y8v8kq1y4S1m2b7oXk",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wantOneOf("--output", output, "text", "markdown", "json"); err != nil {
				return err
			}
			trust, err := readSigners(signers)
			if err != nil {
				return err
			}
			ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
			defer cancel()
			v, err := publish.Verify(ctx, args[0], trust, buildName())
			if err != nil {
				return err
			}
			if err := env.printVerification(v, output); err != nil {
				return err
			}
			return verdictError{verdictOf(v.State)}
		},
	}
	verb.Flags().StringArrayVar(&signers, "signer", nil, "accept the signature of this `KEY`: a fingerprint SHA256:..., or a file of public keys or allowed signers; repeatable")
	verb.Flags().StringVar(&output, "output", "text", "output `FORMAT`: text, markdown (the bundle's page) or json")
	return verb
}

// readKey returns the private key in a file; nil where none is named.
func readKey(file string) (ssh.Signer, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, err := seal.PrivateKey(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// readSigners returns the fingerprints of all signers that --signer names.
func readSigners(flags []string) (out []string, err error) {
	for _, s := range flags {
		keys, err := readSigner(s)
		if err != nil {
			return nil, fmt.Errorf("--signer %s: %w", s, err)
		}
		out = append(out, keys...)
	}
	return out, nil
}

// readSigner returns the fingerprints of a signer.
func readSigner(s string) ([]string, error) {
	if !strings.HasPrefix(s, "SHA256:") {
		raw, err := os.ReadFile(s)
		if err != nil {
			return nil, err
		}
		s = string(raw)
	}
	return seal.Fingerprints(s)
}

func (env *environment) printVerification(v *publish.Verification, output string) error {
	if output == "json" {
		return text.JSON(env.data(), v)
	}
	if output == "markdown" && v.Results != nil {
		_, err := fmt.Fprintf(env.stdout, "Verified: %s.\n\n%s", v.State, v.Report)
		return err
	}
	for _, c := range v.Checks {
		fmt.Fprintf(env.stdout, "%-8s %-10s %s\n", c.State, c.Name, text.Clean(c.Why))
	}
	if v.Results != nil {
		fmt.Fprintln(env.stdout, text.Clean(v.Level()))
		for _, r := range v.Results.Runs {
			if r.EndedEarly != "" {
				fmt.Fprintf(env.stdout, "ended early: %s: %s\n", text.Clean(r.Name), text.Clean(r.EndedEarly))
			}
		}
	}
	words := map[string]string{publish.Holds: "The bundle holds.", publish.Fails: "The bundle does not hold.", publish.Unknown: "It cannot be told whether the bundle holds."}
	_, err := fmt.Fprintln(env.stdout, words[v.State])
	return err
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/opinion/site"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// siteVerb makes one page of many results.
func siteVerb(env *environment) *cobra.Command {
	var out string
	var signers []string
	verb := &cobra.Command{
		Use:   "site RESULT... -o FILE",
		Short: "Make one HTML page of the results of many runs and bundles",
		Long: "site reads run directories, folders of them, published bundles (.wtb) and history files\n" +
			"(.json). Its page shows verdicts, trends, changes of level, any two runs side by side, and\n" +
			"the claims of bundles with their level. The page loads nothing and needs no server. It links\n" +
			"to the reports of runs below its own folder.",
		Example: "  windtunnel site runs -o runs/index.html\n" +
			"  windtunnel site history.json published --signer key.pub -o results.html",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			trust, err := readSigners(signers)
			if err != nil {
				return err
			}
			ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
			defer cancel()
			var page bytes.Buffer
			made, err := site.Write(ctx, &page, site.Options{Sources: args, Signers: trust, Version: buildName(), Folder: filepath.Dir(out)})
			if err != nil {
				return err
			}
			if err := writeFile(out, page.Bytes(), 0o644); err != nil {
				return fmt.Errorf("write site: %w", err)
			}
			for _, s := range made.LeftOut {
				fmt.Fprintf(env.stderr, "left out: %s\n", text.Clean(s))
			}
			fmt.Fprintf(env.stdout, "%s of %s, %s of level, %s\n%s\n", unit.Count(made.Runs, "runs"), unit.Count(made.Scenarios, "scenarios"), unit.Count(made.Changes, "changes"), unit.Count(made.Bundles, "bundles"), out)
			return nil
		},
	}
	verb.Flags().StringVarP(&out, "out", "o", "", "HTML `FILE` to write")
	_ = verb.MarkFlagRequired("out") // it is there
	verb.Flags().StringArrayVar(&signers, "signer", nil, "accept the signature of this `KEY` on bundles: a fingerprint SHA256:..., or a file of public keys or allowed signers; repeatable")
	return verb
}

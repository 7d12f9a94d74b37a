package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/member"
	"github.com/windtunnel/windtunnel/internal/text"
)

// hollowMembersVerb is the process of a scenario's hollow members; package plane
// starts it.
func hollowMembersVerb(env *environment) *cobra.Command {
	verb := &cobra.Command{Use: member.HollowArg + " GROUP", Short: "Be hollow members", Args: cobra.ExactArgs(1), Hidden: true}
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		group, err := readHollow(args[0])
		if err != nil {
			return err
		}
		server, reach, err := member.ServeHollow(group, "")
		if err != nil {
			return err
		}
		defer server.Close()
		file := filepath.Join(filepath.Dir(args[0]), member.HollowReachFile)
		raw, err := json.Marshal(reach)
		if err == nil {
			err = os.WriteFile(file+".new", raw, 0o600)
		}
		if err == nil {
			err = os.Rename(file+".new", file) // whole, or not there
		}
		if err != nil {
			return fmt.Errorf("say where hollow members are: %w", err)
		}
		<-ctx.Done()
		return nil
	}
	return verb
}

// readHollow reads what the members are to be.
func readHollow(file string) (group member.HollowGroup, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return group, fmt.Errorf("read what hollow members are to be: %w", err)
	}
	return group, text.DecodeJSON(file, raw, &group)
}

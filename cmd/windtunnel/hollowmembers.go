package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/hollow"
	"github.com/windtunnel/windtunnel/internal/plane"
)

// hollowMembersVerb is the process of a scenario's hollow members; package plane
// starts it.
func hollowMembersVerb(env *environment) *cobra.Command {
	verb := &cobra.Command{Use: plane.HollowArg + " NAMES", Short: "Be hollow members", Args: cobra.ExactArgs(1), Hidden: true}
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := env.interruptible(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		server, err := hollow.New(hollow.Options{})
		if err != nil {
			return err
		}
		defer server.Close()
		reach, err := makeHollow(server, args[0])
		if err != nil {
			return err
		}
		file := filepath.Join(filepath.Dir(args[0]), plane.HollowReachFile)
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

// makeHollow makes the clusters that a file names.
func makeHollow(server *hollow.Server, file string) (reach plane.HollowReach, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return reach, fmt.Errorf("read the names of hollow members: %w", err)
	}
	var names []string
	if err := json.Unmarshal(raw, &names); err != nil {
		return reach, fmt.Errorf("%s: %w", file, err)
	}
	reach.Addresses = map[string]string{}
	for _, name := range names {
		c, err := server.Cluster(name)
		if err != nil {
			return reach, err
		}
		config := c.Endpoint().Config("")
		reach.CA, reach.Token, reach.Addresses[name] = config.CAData, config.BearerToken, c.Address()
	}
	return reach, nil
}

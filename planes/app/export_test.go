package app

import (
	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
)

// Options returns what app-controller makes of its arguments, and its flags.
func Options(args ...string) (controller.Options, *pflag.FlagSet, error) {
	s, f := newSettings(), pflag.NewFlagSet("app-controller", pflag.ContinueOnError)
	s.addFlags(f)
	if err := f.Parse(args); err != nil {
		return controller.Options{}, nil, err
	}
	err := s.resolveProfile(f)
	return s.options, f, err
}

package scenario_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestReferenceIsUpToDate(t *testing.T) {
	const page = "../docs/reference/scenario.md"
	repotest.Golden(t, page, scenario.Reference())
}

func TestSchemaIsUpToDate(t *testing.T) {
	repotest.Golden(t, "schema.json", scenario.MakeSchema())
}

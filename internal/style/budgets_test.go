package style_test

// wings are the rooms of ARCHITECTURE.md above the ground, which is the rest of internal;
// unbudgeted is what is not linked into the tool.
var (
	wings = []string{
		"internal/record", "internal/machine", "internal/api", "internal/template", "scenario", "internal/interop", "internal/sim",
		"internal/opinion", "internal/fly", "planes", "cmd",
	}
	unbudgeted = []string{"bench", "examples", "tools"}
)

// budgets are the sizes of today. A change that exceeds one deletes as much elsewhere in
// the room, or raises the budget and says why in its commit. A change that makes something
// smaller lowers the budget.
var budgets = struct{ rooms, packages, methods, fields map[string]budget }{
	rooms: map[string]budget{
		".":                 {max: 560},
		"ground":            {max: 5047},
		"internal/record":   {max: 5159},
		"internal/machine":  {max: 3388},
		"internal/api":      {max: 6136},
		"internal/template": {max: 1478},
		"scenario":          {max: 6544},
		"internal/interop":  {max: 12_307},
		"internal/sim":      {max: 24_613},
		"internal/opinion":  {max: 28_044},
		"internal/fly":      {max: 28_878},
		"plane":             {max: 47},
		"planes":            {max: 28_407},
		"cmd":               {max: 7527},
	},
	packages: map[string]budget{
		"internal/opinion/slo": {3818, "one verdict: each SLI reads the same records and labels, and holds its value in one way"},
		"cmd/windtunnel":       {7527, "one file a verb: what a verb does lies in the room that it calls, and verbs share flags"},
		"internal/fly/steps":   {3560, "one file a verb: all verbs share the session and know what create steps have made"},
		"scenario":             {6544, "one language, which Go tests import: several packages would be one vocabulary under several names"},
	},
	methods: map[string]budget{
		"internal/api/wire.conn":      {45, "the path of a call: each hop between objects costs CPU in every call (make bench-load)"},
		"internal/sim/hollow/h2.conn": {48, "one connection of HTTP/2: its frames share windows, headers and one buffer (make bench-hollow)"},
	},
	fields: map[string]budget{
		"internal/api/wire.conn":                      {35, "the path of a call, as above"},
		"internal/interop/kubeburner.job":             {49, "the fields of a job of kube-burner's"},
		"internal/interop/kwok/configuration.Options": {31, "the fields of kwok's own options"},
		"internal/opinion/report/content.Report":      {26, "one for each section of a report"},
		"internal/sim/hollow/h2.conn":                 {34, "one connection of HTTP/2, as above"},
		"internal/text/strictyaml.Dialect":            {31, "in which YAML files of several tools differ, one message or decision each"},
		"planes/clusters/internal/tree.Options":       {26, "one for each flag of the manager"},
		"planes/edge/internal/fleet.Options":          {38, "one for each flag of the fleet of edges"},
		"planes/edge/internal/hub.Options":            {39, "one for each flag of the hub"},
		"scenario.Scenario":                           {29, "one for each key at the top of a scenario"},
	},
}

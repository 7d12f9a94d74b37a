package style_test

// floors says on which floor a folder stands, in tens, with the steps within
// it; imports go down only.
var floors = map[string]int{
	"clock": 0, "unit": 0, "record": 1,
	"chart": 10, "endpoint": 10, "relay": 10, "pace": 9, "indicator": 9, "scenario": 10, "series": 10, "sheet": 10, "stage": 10, "stats": 10, "template": 9,
	"wire": 11, "discovery": 12, "watch": 12,
	"fleet": 20, "load": 20, "observe": 20, "plane": 20,
	"slo": 30, "subject": 30, "compare": 31, "capacity": 32, "history": 32, "diagnose": 30, "gate": 30,
	"report": 40, "rows": 40, "doctor": 40, "grafana": 40, "parquet": 41, "junit": 40, "dashboard": 42, "openmetrics": 40, "perfdata": 40, "kubeburner": 40,
	"experiment": 45, // above report and junit, which it writes
	"cmd":        50, "style": 50, "bench": 50, "accuracy": 50, "examples": 50,
	".": 46, // the door for tests of operators: what it starts is cmd/windtunnel
}

// doors says which folders may import a heavy dependency.
var doors = map[string][]string{
	"k8s.io/kubernetes":                   {"plane/component"},
	"go.etcd.io/etcd/server/v3":           {"plane/component"},
	"github.com/prometheus/common":        {"series"},
	"github.com/prometheus/client_model":  {"series"},
	"github.com/prometheus/client_golang": {"subject/vm/instrument"},
	"github.com/prometheus/prometheus":    {"series/promql"},
	"gonum.org/v1/gonum":                  {"stats"},
	"golang.org/x/perf":                   {"stats"},
	"github.com/google/pprof":             {"observe/profile"},
	"github.com/google/cel-go":            {"scenario", "stage"},
	"github.com/itchyny/gojq":             {"stage", "scenario"},
	"github.com/spf13/cobra":              {"cmd/windtunnel", "plane/component"},
	"go.yaml.in/yaml/v3":                  {"scenario", "template", "stage", "report"},
	"golang.org/x/net/http2":              {"wire", "fleet/fleettest"},
	"github.com/parquet-go/parquet-go":    {"parquet"},
	"github.com/chromedp":                 {"report"},
	"github.com/rogpeppe/go-internal":     {"cmd/windtunnel"},
}

// exceptions names what breaks a rule, and why.
var exceptions = map[string]string{
	"wire/client.go:context":              "ends the dials that no caller waits for; Close cancels it",
	"report/reporttest/judgement.go:call": "one row of a table of made-up calls",
	"wire/stream.go:streams":              "a pool has no state that anyone can see",
}

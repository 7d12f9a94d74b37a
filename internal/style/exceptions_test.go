package style_test

// levels are the floors of the house from the ground up. A package imports only
// folders of lower levels, and its own room: the longest prefix that stands here.
// A wing is one folder, so that its name is the rule; where a wing stands on two
// floors, the part that differs is named. ARCHITECTURE.md is the map that these are
// the measurements of.
var levels = [][]string{
	{"internal/repotest"}, // what tests share, of every room
	{"internal/clock", "internal/unit", "internal/sli", "internal/stats", "internal/share", "internal/pace", "internal/kernel", "internal/component"},
	{"internal/folder"}, // whose messages have sizes
	{"internal/text"},
	{"internal/guard"}, // which says on a screen why the process ends
	{"internal/record"},
	{"internal/machine"},
	{"internal/api"},
	{"internal/template", "scenario"},
	{"internal/interop"}, // what reads other tools' files
	{"internal/sim"},
	{"internal/interop/kwok/golden"}, // what plays kwok's test data, of stages
	{"internal/opinion"},
	{"internal/interop/junit", "internal/interop/openmetrics", "internal/interop/parquet", "internal/interop/grafana",
		"internal/interop/clusterloader2/summary", "internal/interop/kubeburner/measurement"}, // what writes them, of opinions
	{"internal/opinion/judge"}, // which lets all of them speak
	{"internal/fly"},
	{".", "planes/internal"},
	{"planes/app", "planes/clusters", "planes/edge", "planes/vm"},
	{"planes", "examples"}, // their verbs; the scenarios that come along
	{"cmd", "bench", "tools", "internal/style", "plane"},
}

// opinions are the rooms to the right of the record: functions of what a run
// left. They build without what flies.
var opinions = []string{
	"internal/opinion", "internal/interop/junit", "internal/interop/openmetrics", "internal/interop/parquet", "internal/interop/grafana",
	"internal/interop/clusterloader2/summary", "internal/interop/kubeburner/measurement",
}

// flying are the rooms to the left of the record.
var flying = []string{"internal/fly", "internal/sim"}

// public are the packages that other modules may import. A reference plane is the
// third kind of folder outside internal: only cmd imports it.
var public = []string{".", "scenario", "examples"}

// guarded are the rooms that deal with what comes from outside while a run is under
// way, and unguarded those in them that do not: what is below guard, tests, and what
// is a process of its own.
var (
	guarded   = []string{"internal/api", "internal/fly", "internal/interop/kwok", "internal/machine/network", "internal/sim"}
	unguarded = []string{"internal/sim/apitest", "internal/fly/doctor", "internal/fly/flight/flighttest", "internal/fly/plane/proxy"}
)

// doors says which folders may import a heavy dependency.
var doors = map[string][]string{
	"k8s.io/kubernetes":                                 {"plane"},
	"go.etcd.io/etcd/server/v3":                         {"plane"},
	"github.com/prometheus/common":                      {"internal/record/series", "internal/record/promql"},
	"github.com/prometheus/client_model":                {"internal/record/series"},
	"github.com/prometheus/client_golang":               {"planes/internal/kit/instrument", "planes", "examples/operators/kueue"}, // its manager has the metrics of its own module
	"github.com/prometheus/prometheus":                  {"internal/record/promql"},
	"gonum.org/v1/gonum":                                {"internal/stats"},
	"golang.org/x/perf":                                 {"internal/stats", "bench/baseline"},
	"github.com/vishvananda/netlink":                    {"internal/fly/plane/peers", "internal/machine/network", "planes/clusters/internal/netns"},
	"github.com/google/nftables":                        {"internal/machine/network", "planes/clusters/internal/netns"},
	"golang.zx2c4.com/wireguard":                        {"planes/clusters/internal/netns"},
	"github.com/google/pprof":                           {"internal/fly/observe/profile", "internal/opinion/diagnose"},
	"github.com/google/cel-go":                          {"scenario", "internal/sim/stage"},
	"github.com/itchyny/gojq":                           {"internal/sim/stage", "internal/interop/kubeburner", "scenario"},
	"github.com/spf13/cobra":                            {"cmd/windtunnel", "plane", "planes/internal/kit/process", "planes"},
	"go.yaml.in/yaml/v3":                                {"scenario", "internal/text/strictyaml", "internal/template", "internal/interop", "internal/sim/stage", "internal/opinion/report", "internal/opinion/publish", "internal/sim/hollow"},
	"golang.org/x/net/http2":                            {"internal/api/wire", "internal/sim/apitest", "internal/sim/hollow/h2"},
	"github.com/parquet-go/parquet-go":                  {"internal/interop/parquet"},
	"github.com/chromedp":                               {"internal/opinion/report"},
	"github.com/rogpeppe/go-internal":                   {"cmd/windtunnel"},
	"github.com/quic-go/quic-go":                        {"planes/edge/internal/stream"},
	"cuelang.org/go":                                    {"planes/app/internal/template"},
	"github.com/klauspost/compress":                     {"planes/app/internal/api"},
	"golang.org/x/crypto":                               {"internal/opinion/publish", "cmd/windtunnel"},
	"github.com/secure-systems-lab/go-securesystemslib": {"internal/opinion/publish/seal"},
	"github.com/in-toto/attestation":                    {"internal/opinion/publish/seal"},
	"github.com/google/go-containerregistry":            {"tools/image"}, // a module of its own
}

// exceptions names what breaks a rule, and why.
var exceptions = map[string]string{
	"cmd/windtunnel/version.go:stamp":                 "set by the linker of a release",
	"cmd/windtunnel/version.go:commit":                "set by the linker of a release",
	"internal/api/wire/client.go:context":             "ends the dials that no caller waits for; Close cancels it",
	"internal/repotest/golden.go:update":              "a flag of go test",
	"internal/opinion/compare/besides.go:shown":       "the indicators' keys: made when they are first asked for, then never changed",
	"internal/sim/hollow/apply/apply.go:builtin":      "the schemas that applies go by: read when one is first needed, then never changed",
	"internal/sim/hollow/kind/builtin.go:builtin":     "the built-in resources: made when they are first asked for, then never changed",
	"internal/api/wire/stream.go:streams":             "a pool has no state that anyone can see",
	"planes/app/internal/cluster/join.go:door":        "reads the kubeconfigs of members, which are the run's own",
	"planes/clusters/internal/members/join.go:door":   "as above",
	"planes/clusters/internal/tree/member.go:door":    "as above",
	"planes/internal/kit/planetest/planetest.go:door": "for tests, whose clusters are their own",
	"planes/internal/kit/planetest/hollow.go:door":    "as above",
	"planes/internal/kit/planetest/refusals.go:door":  "as above",
	"planes/internal/kit/planetest/hollow.go:servers": "what tests of one process share: a server is closed when its last test ends",
	"planes/app/internal/api/revision.go:encoders":    "a pool has no state that anyone can see",
	"planes/app/internal/api/revision.go:decoders":    "a pool has no state that anyone can see",
	"planes/edge/internal/link/conn.go:buffers":       "as above",
	"internal/stats/histogram.go:samples":             "knows the singular; package unit stands beside package stats",
	"internal/sim/hollow/codec/bound.go:limitCopies":  "a bound that the patch library has as a variable of its own: set once, before the first patch",
}
